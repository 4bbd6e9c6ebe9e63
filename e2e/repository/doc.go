// Package repository keeps the laws of the repository itself: which module may import which, that
// every package says what it is for, that files stay small, that no machine's paths or downloads
// were committed. The laws are in the tests.
package repository
