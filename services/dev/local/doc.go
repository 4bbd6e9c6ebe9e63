// Package local is what all that start the system's processes on one machine need, the
// demo, the tests of processes and the benchmarks: free ports, a gateway's Envoy
// configuration, the directory in which Envoy finds the filter, and asking a server
// whether it serves. Package child starts the processes.
package local
