// Package containers tests Titrate as its users deploy it: the images that `make images` builds, in
// containers, on networks that can be cut.
//
// Each gateway is a pair of containers, Envoy and its agent, that share a volume with the agent's
// socket. Two networks: `edge` carries clients' requests and those to the upstream, `mesh` carries
// gossip, the coordinator and etcd. Cutting an agent from the mesh is a partition that leaves the
// gateway's traffic alone.
//
// docker-compose.yml is tested as it is, with the profile observe, on free ports and without Grafana.
//
// The tests need a container engine and the images; without them they are skipped with the command
// that makes them, unless TITRATE_CONTAINERS=1 says that they must run.
package containers
