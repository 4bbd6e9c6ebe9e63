// Package console opens the console in a real Chromium, at a real coordinator with real Envoys under load.
//
// Each screen must show its numbers, and names with HTML must stay text. A caller with a role sees what the role
// allows. The page says that its coordinator has died, and goes on when it is back. With -shots DIR the screens are
// written as pictures: make console-shots.
package console
