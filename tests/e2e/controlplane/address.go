package controlplane

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Ports that operating systems do not give to connections (Linux: 32768 to 60999). A port that the operating system chooses
// can be given to a connection before the process that is to listen on it has started.
const firstPort, lastPort = 20000, 32000

// nextPort is the port that FreeAddress tries next. Processes start at different ports, because two of them must not be given
// the same one.
var nextPort atomic.Uint32

func init() {
	nextPort.Store(rand.Uint32N(lastPort - firstPort))
}

// FreeAddress returns an address on which a process can listen that cannot listen on port 0. It returns an address once only.
func FreeAddress() (string, error) {
	for range lastPort - firstPort {
		port := firstPort + nextPort.Add(1)%(lastPort-firstPort)
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(int(port)))
		if err != nil {
			continue // in use
		}
		return listener.Addr().String(), listener.Close()
	}
	return "", errors.New("no port is free")
}

// freeAddresses returns several addresses of FreeAddress.
func freeAddresses(n int) ([]string, error) {
	var found []string
	for range n {
		address, err := FreeAddress()
		if err != nil {
			return nil, err
		}
		found = append(found, address)
	}
	return found, nil
}
