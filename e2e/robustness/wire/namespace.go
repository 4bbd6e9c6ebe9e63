package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// enter makes a new network namespace for the calling thread, which is locked,
// and returns it as a file.
func enter() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("unshare the network: %w", err)
	}
	return os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
}

// plug makes a TUN device in the calling thread's namespace and gives it the
// address, in a network that holds all hosts.
func plug(address netip.Addr) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(device)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = errors.Join(up("lo"), configure(address), up(device))
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("TUN device of %s: %w", address, err)
	}
	return os.NewFile(uintptr(fd), "tun "+address.String()), nil
}

// device is the name of each host's TUN device.
const device = "wire"

// configure sets address and netmask of the device.
func configure(address netip.Addr) error {
	a := address.As4()
	if err := set(unix.SIOCSIFADDR, a[:]); err != nil {
		return fmt.Errorf("set the address: %w", err)
	}
	if err := set(unix.SIOCSIFNETMASK, []byte{255, 255, 255, 0}); err != nil {
		return fmt.Errorf("set the netmask: %w", err)
	}
	return nil
}

func set(what uint, value []byte) error {
	request, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := request.SetInet4Addr(value); err != nil {
		return err
	}
	return ioctl(what, request)
}

// up sets a device up.
func up(name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := ioctl(unix.SIOCGIFFLAGS, request); err != nil {
		return fmt.Errorf("flags of %s: %w", name, err)
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	if err := ioctl(unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// ioctl asks a socket of the calling thread's namespace.
func ioctl(what uint, request *unix.Ifreq) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.IoctlIfreq(fd, what, request)
}

// inside runs f on a thread in a new namespace. The thread ends with it; the
// namespace lives on in what f keeps.
func inside(f func(namespace *os.File) error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread does not come back
		namespace, err := enter()
		if err == nil {
			err = f(namespace)
		}
		done <- err
	}()
	return <-done
}
