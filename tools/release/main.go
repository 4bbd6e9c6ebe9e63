// Release makes the parts of a release that no other program makes here: images of one program for
// several architectures, as OCI archives, their signatures, and SBOMs. It needs the standard
// library only, no container engine and no network, and writes the same bytes for the same input.
//
//	release image -o FILE -version V -time UNIX -entrypoint /titrate amd64=/titrate=bin/titrate-amd64 …
//	release sign -o FILE -version V -time UNIX -name titrate/titrate -key PRIVATE.pem IMAGE.tar
//	release verify -key PUBLIC.pem IMAGE.tar SIGNATURES.tar
//	release sbom -o FILE -version V -time UNIX -name titrate BINARY
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want image, sign, verify or sbom")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	var i image
	output := f.String("o", "", "file to write")
	seconds := f.Int64("time", 0, "time of the release, in seconds since 1970")
	f.StringVar(&i.version, "version", "", "version of the release")
	f.StringVar(&i.name, "name", "", "name of the image or of the program, such as titrate")
	f.StringVar(&i.revision, "revision", "", "commit that the release is made of")
	f.StringVar(&i.entrypoint, "entrypoint", "", "command of the image, in words")
	f.StringVar(&i.command, "command", "", "default arguments of the image, in words")
	key := f.String("key", "", "PEM file with the key: the private one for sign, the public one for verify")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "verify" {
		return verifyFiles(*key, f.Args())
	}
	if *output == "" || i.version == "" || i.name == "" || f.NArg() == 0 {
		return errors.New("-o, -name, -version and an argument are needed")
	}
	i.time = time.Unix(*seconds, 0).UTC()
	var content []byte
	var err error
	switch args[0] {
	case "image":
		content, err = i.archive(f.Args())
	case "sign":
		content, err = i.signFile(*key, f.Arg(0))
	case "sbom":
		content, err = sbom(f.Arg(0), i.name, i.version, i.time)
	default:
		return fmt.Errorf("%q: want image, sign, verify or sbom", args[0])
	}
	if err != nil {
		return err
	}
	return os.WriteFile(*output, content, 0o644)
}

// signFile makes the archive with the signatures of an image's archive.
func (i image) signFile(key, path string) ([]byte, error) {
	private, err := privateKey(key)
	if err != nil {
		return nil, err
	}
	archive, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return i.signatures(archive, private)
}

// verifyFiles checks the signatures of an image's archive, and prints what is signed.
func verifyFiles(key string, paths []string) error {
	if len(paths) != 2 {
		return fmt.Errorf("verify: want IMAGE.tar SIGNATURES.tar, got %q", paths)
	}
	public, err := publicKey(key)
	if err != nil {
		return err
	}
	var archives [2][]byte
	for i, path := range paths {
		if archives[i], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	digests, err := verify(archives[0], archives[1], public)
	if err != nil {
		return err
	}
	for _, digest := range digests {
		fmt.Println(digest + ": signed")
	}
	return nil
}
