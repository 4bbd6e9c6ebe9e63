package coordinator

import (
	"net"
	"net/http"

	"google.golang.org/grpc"

	"github.com/titrate/titrate/services/console"
	"github.com/titrate/titrate/services/telemetry"
)

// consoleServer is the server of the console.
type consoleServer struct {
	listener net.Listener
	server   *http.Server
	pages    *console.Console
}

// serveConsole makes the HTTP server of the console: the admin API, and pages before it.
func (o *Coordinator) serveConsole(security telemetry.Security, api func(grpc.ServiceRegistrar)) error {
	server, err := o.newHTTP(security, api)
	if err != nil {
		return err
	}
	if o.console.pages, err = console.New(server.Handler); err != nil {
		return err
	}
	server.Handler = o.console.pages
	server.RegisterOnShutdown(o.console.pages.Close)
	o.console.server = server
	return nil
}

// ConsoleAddress returns the address of the console, "" without Config.Console.
func (o *Coordinator) ConsoleAddress() string {
	if o.console.listener == nil {
		return ""
	}
	return o.console.listener.Addr().String()
}

// ofConsole reads a figure of the console, 0 without one.
func ofConsole[N int | uint64](figure func(*console.Console) N) func(measurements, telemetry.Put) {
	return telemetry.One(func(m measurements) (n N) {
		if m.o.console.pages != nil {
			n = figure(m.o.console.pages)
		}
		return n
	})
}
