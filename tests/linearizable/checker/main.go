// Checks whether histories of operations on partitions, locks and latches are linearizable, with Porcupine.
//
//	linearizable [-timeout 20s] [-html FOLDER] [FILE…]
//
// Reads JSON lines (see Operation) from the files, or from standard input. Prints one JSON line for each history: its name, the number of
// operations, the verdict (legal, illegal, or unknown if time ran out), and for an illegal one the smallest violation that was found. Exits
// with status 1 if a history is illegal.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// A Verdict is the result for one history.
type Verdict struct {
	History    string   `json:"history"`
	Operations int      `json:"operations"`
	Verdict    string   `json:"verdict"`
	Seconds    float64  `json:"seconds"`
	Violation  []string `json:"violation,omitempty"`
}

func main() {
	timeout := flag.Duration("timeout", 20*time.Second, "time for the check of one history, and for the reduction of a violation")
	html := flag.String("html", "", "folder for Porcupine's pictures of the illegal histories")
	flag.Parse()
	input := io.Reader(os.Stdin)
	if flag.NArg() > 0 {
		var files []io.Reader
		for _, name := range flag.Args() {
			file, err := os.Open(name)
			if err != nil {
				fail(err)
			}
			files = append(files, file)
		}
		input = io.MultiReader(files...)
	}
	names, histories, err := readHistories(input)
	if err != nil {
		fail(err)
	}
	verdicts := make([]Verdict, len(names))
	var running sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for at, name := range names {
		running.Add(1)
		go func(at int, name string) {
			defer running.Done()
			turns <- struct{}{}
			defer func() { <-turns }()
			verdicts[at] = judge(name, histories[name], *timeout, *html)
		}(at, name)
	}
	running.Wait()
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	status := 0
	for _, verdict := range verdicts {
		if err := output.Encode(verdict); err != nil {
			fail(err)
		}
		if verdict.Verdict == "illegal" {
			status = 1
		}
	}
	os.Exit(status)
}

func judge(name string, history []Operation, timeout time.Duration, html string) Verdict {
	began := time.Now()
	result, _ := check(withoutUnseen(history), timeout/2, "")
	if result != porcupine.Ok {
		result, _ = check(history, timeout, "")
	}
	if result == porcupine.Unknown {
		// A part may be illegal.
		for _, scope := range scopes(history) {
			part := project(history, func(cell string) bool { return covers(scope, cell) })
			if time.Since(began) < 2*timeout && isIllegal(part, stepTimeout) {
				result, history = porcupine.Illegal, part
				break
			}
		}
	}
	verdict := Verdict{History: name, Operations: len(history), Seconds: time.Since(began).Seconds()}
	switch result {
	case porcupine.Ok:
		verdict.Verdict = "legal"
	case porcupine.Unknown:
		verdict.Verdict = "unknown"
	case porcupine.Illegal:
		verdict.Verdict = "illegal"
		smallest := reduce(history, time.Now().Add(timeout))
		for at := range smallest {
			verdict.Violation = append(verdict.Violation, smallest[at].String())
		}
		if html != "" {
			file := filepath.Join(html, strings.ReplaceAll(name, "/", "-")+".html")
			if _, err := check(smallest, timeout, file); err != nil {
				fail(err)
			}
		}
	}
	return verdict
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "linearizable:", err)
	os.Exit(2)
}
