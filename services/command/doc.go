// Package command has what the command lines of Titrate's programs share: exit statuses, wrong usage, the version, the
// formats of an output, tables, and the files of documents.
package command
