// A job that runs on one instance at a time, and stops in time when its leadership is lost.
//
//	nightly STORE FILE ROUNDS
//
// Start it as often as you like. Each instance that is elected appends ROUNDS lines to FILE, and
// hands over. It holds a guard during each write, so that a former leader never writes after a newer
// one. SIGTERM ends it cleanly.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"bellwether"
)

func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line)
	return err
}

func run(ctx context.Context, store, path string, rounds int) error {
	guard, err := bellwether.OpenGuard(path)
	if err != nil {
		return err
	}
	defer guard.Close()
	opts := &bellwether.Options{TTL: 30 * time.Second}
	return bellwether.Run(ctx, store, "nightly", opts, func(ctx context.Context, lead *bellwether.Leadership) error {
		for round := 1; round <= rounds; round++ {
			line := fmt.Sprintf("token %d round %d\n", lead.Token(), round)
			if err := guard.Hold(ctx, lead.Token(), func() error { return appendLine(path, line) }); err != nil {
				return err // bellwether.ErrStale if a newer leader has written
			}
			select {
			case <-ctx.Done(): // the leadership is lost, or SIGTERM arrived
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
		return nil
	})
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: nightly STORE FILE ROUNDS")
		os.Exit(64)
	}
	rounds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot read ROUNDS:", err)
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err = run(ctx, os.Args[1], os.Args[2], rounds)
	var lost *bellwether.LostError
	switch {
	case errors.As(err, &lost):
		fmt.Fprintln(os.Stderr, "stopped:", lost)
		os.Exit(76)
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
