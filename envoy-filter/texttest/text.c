// The parsers under test, as they are in the filter.
#include "../text.c"
