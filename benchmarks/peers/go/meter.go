package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// cpu is the user and system time of all threads until now, in seconds.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(time syscall.Timeval) float64 { return float64(time.Sec) + float64(time.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// memory is the resident memory in bytes.
func memory() float64 {
	pages, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	resident, err := strconv.Atoi(strings.Fields(string(pages))[1])
	if err != nil {
		panic(err)
	}
	return float64(resident * os.Getpagesize())
}

// collected is the resident memory after garbage was collected and given back.
func collected() float64 {
	debug.FreeOSMemory()
	return memory()
}

// say prints what a phase took.
func say(phase string, number int, spent, memory float64) {
	line, err := json.Marshal(map[string]any{"phase": phase, "number": number, "cpu": spent, "memory": memory})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// counter counts reconciles, and sends when as many as expected were seen.
type counter struct {
	seen, until atomic.Int64
	reached     chan struct{}
}

func newCounter(expected int) *counter {
	made := &counter{reached: make(chan struct{}, 1)}
	made.expect(expected)
	return made
}

func (c *counter) expect(more int) { c.until.Add(int64(more)) }

func (c *counter) count() {
	if c.seen.Add(1) == c.until.Load() {
		c.reached <- struct{}{}
	}
}
