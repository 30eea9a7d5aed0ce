// Command conformance runs an adapter against the transcripts of this directory: README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	contractPath := flag.String("contract", "../docs/contract/rollplan.v1.binpb", "descriptor set of the contract")
	directory := flag.String("transcripts", "conformance/transcripts", "directory of the transcripts")
	pattern := flag.String("run", "*", "glob pattern of the transcripts to run")
	protocols := flag.String("protocols", "grpc", "comma-separated list of protocols that the driver is told to use; their names are up to the driver")
	service := flag.String("bench", "", "rollplan binary: instead of playing transcripts, measure the processor time of drivers for a plan of this service")
	plans := flag.Int("plans", 5000, "number of plans with -bench")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: conformance [flags] DRIVER [ARGUMENT...]\n"+
			"       conformance -bench SERVICE [flags] 'NAME MILLISECONDS PROTOCOL DRIVER [ARGUMENT...]' ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *service != "" {
		if err := bench(*directory, *service, *plans, flag.Args()); err != nil {
			fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
			os.Exit(1)
		}
		return
	}
	failed, err := run(*contractPath, *directory, *pattern, strings.Split(*protocols, ","), flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// run plays all transcripts with each protocol, prints the deviations, and returns the number of transcripts that failed.
func run(contractPath, directory, pattern string, protocols, command []string) (failed int, err error) {
	c, err := readContract(contractPath)
	if err != nil {
		return 0, err
	}
	transcripts, err := readTranscripts(directory, pattern)
	if err != nil {
		return 0, err
	}
	passed := 0
	for _, protocol := range protocols {
		d, err := startDriver(command)
		if err != nil {
			return 0, err
		}
		for _, t := range transcripts {
			if err := d.play(c, t, protocol); err != nil {
				failed++
				fmt.Printf("FAIL %s (%s): %v\n", t.Name, protocol, err)
				continue
			}
			passed++
		}
		if err := d.stop(); err != nil {
			failed++
			fmt.Printf("FAIL (%s): the driver: %v\n", protocol, err)
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed, nil
}
