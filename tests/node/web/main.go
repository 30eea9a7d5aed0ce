// Command web is a well-behaved server in the pods of the tests: HTTP/1.1 on port 8080, and PlanRollout over gRPC on port 9090.
// After SIGTERM, it finishes the calls in progress. With -unready, it never becomes ready.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

type planner struct {
	rollplanv1.UnimplementedRolloutPlannerServer
}

func (planner) PlanRollout(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
	time.Sleep(20 * time.Millisecond)
	return &rollplanv1.PlanRolloutResponse{}, nil
}

func main() {
	unready := flag.Bool("unready", false, "never become ready")
	flag.Parse()
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		_, _ = w.Write([]byte("ok\n")) // the client has closed the connection
	})
	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if *unready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	web := &http.Server{Addr: ":8080"}
	go func() {
		if err := web.ListenAndServe(); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()
	listener, err := net.Listen("tcp", ":9090")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	rollplanv1.RegisterRolloutPlannerServer(server, planner{})
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Fatal(err)
		}
	}()
	<-stop.Done()
	server.GracefulStop()
	if err := web.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
