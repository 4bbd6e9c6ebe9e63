// Package packages installs the .deb and the .rpm of a release on a machine whose first process is systemd. It
// follows docs/how-to/virtual-machine.md there with a real Envoy and etcd, and removes the package.
//
// The machine is a container of Debian 12; etcd and an upstream are containers in its network namespace. The .rpm is
// installed by Debian's rpm, without the dependencies that only an RPM distribution has. `make e2e-packages` makes the
// packages and the image.
package packages
