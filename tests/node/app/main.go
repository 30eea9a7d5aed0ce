// Command app runs in the pods of the tests, and serves the registry from which they pull their images.
//
//	app serve [-ready-after DURATION] [-spread DURATION] [-exit CODE]
//	                                                       answer HTTP on port 8080 (/ready, /live); exit with the code after SIGTERM
//	app exit CODE [MESSAGE]                                print a message and exit
//	app crash TIMES FILE                                   crash this number of times, counted in a file, then serve
//	app fill                                               allocate memory until it is killed
//	app sleep                                              do nothing
//	app install DURATION DIRECTORY                         write the program to a directory after this time, then do nothing
//	app registry ADDRESS DIRECTORY                         serve the OCI layouts in a directory, each under its own name
package main

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: app COMMAND")
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "serve":
		serve(args)
	case "exit":
		exit(args)
	case "crash":
		crash(args)
	case "fill":
		fill()
	case "sleep":
		time.Sleep(1<<63 - 1)
	case "install":
		install(args)
	case "registry":
		log.Fatal(http.ListenAndServe(args[0], registry(args[1])))
	default:
		log.Fatalf("unknown command %s", os.Args[1])
	}
}

func serve(args []string) {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	after := flags.Duration("ready-after", 0, "time after which /ready answers 200")
	spread := flags.Duration("spread", 1, "longest time after that; each pod draws its own")
	code := flags.Int("exit", 0, "exit code after SIGTERM")
	_ = flags.Parse(args)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		os.Exit(*code)
	}()
	started := time.Now().Add(rand.N(*spread))
	http.HandleFunc("/live", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(started) < *after {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	log.Fatal(http.ListenAndServe(":8080", nil))
}

func exit(args []string) {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		log.Fatal(err)
	}
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, args[1])
	}
	os.Exit(code)
}

func crash(args []string) {
	times, err := strconv.Atoi(args[0])
	if err != nil {
		log.Fatal(err)
	}
	text, _ := os.ReadFile(args[1]) // missing at the first start
	if len(text) < times {
		if err := os.WriteFile(args[1], append(text, '.'), 0o600); err != nil {
			log.Fatal(err)
		}
		log.Fatal("the database does not answer yet")
	}
	serve(nil)
}

func fill() {
	var taken [][]byte
	for {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = 1
		}
		taken = append(taken, block)
		_ = taken
	}
}

func install(args []string) {
	after, err := time.ParseDuration(args[0])
	if err != nil {
		log.Fatal(err)
	}
	time.Sleep(after)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		log.Fatal(err)
	}
	// The kubelet must not start a part of it.
	file := filepath.Join(args[1], "app")
	if err := os.WriteFile(file+".part", program, 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.Rename(file+".part", file); err != nil {
		log.Fatal(err)
	}
	time.Sleep(1<<63 - 1)
}

// foreign is an index of images for another platform.
const foreign = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"size":2,` +
	`"mediaType":"application/vnd.oci.image.manifest.v1+json","platform":{"architecture":"s390x","os":"linux"},` +
	`"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}]}`

// registry answers pulls: it serves the image NAME from DIRECTORY/NAME, and returns 401 for private images and 404 for
// unknown ones. While it does not have the image status-CODE-NAME, it returns this status code.
func registry(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
		kind, reference, _ := strings.Cut(rest, "/")
		layout := filepath.Join(dir, filepath.Base(name))
		_, err := os.Stat(layout)
		code, hasCode := statusOf(name)
		switch {
		case hasCode && err != nil:
			w.WriteHeader(code)
		case name == "private":
			w.WriteHeader(http.StatusUnauthorized)
		case name == "foreign" && kind == "manifests":
			digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(foreign)))
			w.Header().Set("Docker-Content-Digest", digest)
			w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(foreign))
		case kind == "manifests" && !strings.HasPrefix(reference, "sha256:"):
			text, err := os.ReadFile(filepath.Join(layout, "index.json"))
			var index struct {
				Manifests []struct{ MediaType, Digest string }
			}
			if err != nil || json.Unmarshal(text, &index) != nil || len(index.Manifests) != 1 {
				http.NotFound(w, r)
				return
			}
			digest := index.Manifests[0].Digest
			w.Header().Set("Docker-Content-Digest", digest)
			blob(w, r, layout, digest, index.Manifests[0].MediaType)
		case kind == "manifests":
			blob(w, r, layout, reference, "application/vnd.oci.image.manifest.v1+json")
		case kind == "blobs":
			blob(w, r, layout, reference, "application/octet-stream")
		default:
			http.NotFound(w, r)
		}
	})
}

// statusOf returns the status code in the name of an image.
func statusOf(name string) (int, bool) {
	rest, found := strings.CutPrefix(name, "status-")
	code, _, _ := strings.Cut(rest, "-")
	status, err := strconv.Atoi(code)
	return status, found && err == nil
}

func blob(w http.ResponseWriter, r *http.Request, layout, digest, mediaType string) {
	path := filepath.Join(layout, "blobs/sha256", filepath.Base(strings.TrimPrefix(digest, "sha256:")))
	if _, err := os.Stat(path); err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	http.ServeFile(w, r, path)
}
