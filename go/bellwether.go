// Package bellwether elects one leader among many instances of a program.
//
//	lead, err := bellwether.Campaign(ctx, "sqlite:/tmp/elections.db", "nightly", nil)
//	if err != nil {
//		return err
//	}
//	defer lead.Resign()
//	return work(lead.Context(), lead.Token())
//
// The package is a thin layer on libbellwether. A leadership is a lease plus a fencing token. A
// thread of the library renews the lease while the program works. When the leadership is lost, its
// context is cancelled, and Valid returns the time left to stop.
//
// Go cannot end a goroutine from outside. Either pass the context to everything that the work calls,
// and protect the storage with the token (Guard), or set Options.Abort.
//
// All functions and methods may be called by any goroutine.
package bellwether

/*
#cgo LDFLAGS: -lbellwether
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Options of a candidate. The zero value means the defaults of the library.
type Options struct {
	// ID of this candidate: at most 63 bytes, unique among all candidates. Default:
	// host-pid-random.
	ID string
	// Value is published with the leadership, for example an address. At most 1023 bytes.
	Value string
	// TTL is how long a leadership lasts without renewal. Default: 10 s.
	TTL time.Duration
	// KillAfter is the time that the work has to end after the loss. Default: 2 s, at most TTL/5.
	KillAfter time.Duration
	// Margin between the deadline of the work and the end of the lease. Default: TTL/20.
	Margin time.Duration
	// Retry is the pause before an unreachable store is asked again. Default: TTL/5.
	Retry time.Duration
	// Grace is added to another leader's TTL before a takeover. Default: 0.
	Grace time.Duration
	// DriftPPM is the bound on clock drift in parts per million. Default: 10000, which is 1 %.
	DriftPPM uint32
	// ClockUncertainty is the maximum error of the wall clock. Default: unknown.
	ClockUncertainty time.Duration
	// Priority: candidates with a higher priority go first.
	Priority int32
	// Preferred asks the leader for a transfer, once per TTL.
	Preferred bool
	// NoWait acquires the leadership only if it is free; otherwise Campaign returns ErrTimedOut.
	NoWait bool
	// Abort ends the process if Resign was not called by the deadline of the work, before the
	// lease can pass to another candidate.
	Abort bool
}

// Leadership of one election. Resign must be called when the work has ended.
type Leadership struct {
	ctx    context.Context
	cancel context.CancelFunc
	token  uint64
	id     string

	resigning sync.Mutex // held by Resign until the store has confirmed
	handle    *C.struct_bw_handle
	watch     *watch

	lock   sync.RWMutex            // protects the rest; held while c is used
	c      *C.struct_bw_leadership // nil: resigned
	reason Reason                  // why it ended, once c is nil
}

// Campaign waits until this candidate leads the election in the store at url, or ctx is done. The
// store URLs are those of bw_open in bellwether.h. A nil opts means the defaults.
func Campaign(ctx context.Context, url, election string, opts *Options) (*Leadership, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := newWatch()
	if err != nil {
		return nil, err
	}
	options, campaign, free := opts.toC()
	defer free()
	C.bw_go_watch_loss(w.c, &options, &campaign)
	l := &Leadership{watch: w}
	if l.handle, err = open(url, &options); err != nil {
		w.close()
		return nil, err
	}
	if l.c, err = l.wait(ctx, election, &campaign, opts.NoWait); err != nil {
		closeBoth(l.handle, w)
		return nil, err
	}
	l.token = uint64(C.bw_token(l.c))
	l.id = C.GoString(C.bw_id(l.handle))
	l.ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		w.wait()
		l.cancel()
	}()
	return l, nil
}

// wait contends until elected. If ctx ends meanwhile, the handle is interrupted and can only be
// closed.
func (l *Leadership) wait(ctx context.Context, election string, campaign *C.struct_bw_campaign_options, noWait bool) (*C.struct_bw_leadership, error) {
	name := C.CString(election)
	defer C.free(unsafe.Pointer(name))
	elected, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			C.bw_interrupt(l.handle)
		case <-elected:
		}
	}()
	timeout := C.int64_t(C.BW_FOREVER)
	if noWait {
		timeout = 0
	}
	var c *C.struct_bw_leadership
	err := call(func() C.int { return C.bw_campaign(l.handle, name, campaign, timeout, &c) })
	close(elected)
	<-done
	if err == nil && ctx.Err() != nil {
		C.bw_resign(c)
		err = ctx.Err()
	} else if errors.Is(err, errInterrupted) {
		err = ctx.Err()
	}
	return c, err
}

// Run campaigns, calls work with the context of the leadership, and resigns when work has returned.
// It returns a *LostError if the leadership was lost before that, otherwise the error of work.
func Run(ctx context.Context, url, election string, opts *Options, work func(context.Context, *Leadership) error) error {
	lead, err := Campaign(ctx, url, election, opts)
	if err != nil {
		return err
	}
	defer lead.Resign()
	err = work(lead.Context(), lead)
	if lost := lead.Err(); lost != nil {
		return lost
	}
	return err
}

// Context is cancelled when the leadership is lost or resigned, or when the context given to
// Campaign is done. After the process was stopped, the cancellation may arrive a moment late;
// IsLeader does not.
func (l *Leadership) Context() context.Context { return l.ctx }

// Token is the fencing token of this leadership. 0: the store issues no tokens.
func (l *Leadership) Token() uint64 { return l.token }

// ID of this candidate.
func (l *Leadership) ID() string { return l.id }

// IsLeader compares the deadline of the lease with the clock. The answer holds for the instant of
// the call.
func (l *Leadership) IsLeader() bool {
	l.lock.RLock()
	defer l.lock.RUnlock()
	return l.c != nil && bool(C.bw_is_leader(l.c))
}

// Valid is the time until the work must have ended. Renewals extend it. After a loss it is the time
// left to clean up.
func (l *Leadership) Valid() time.Duration {
	l.lock.RLock()
	defer l.lock.RUnlock()
	if l.c == nil {
		return 0
	}
	return time.Duration(C.bw_valid_ms(l.c)) * time.Millisecond
}

// Err returns nil while this candidate leads, otherwise a *LostError with the reason.
func (l *Leadership) Err() error {
	l.lock.RLock()
	defer l.lock.RUnlock()
	if l.c == nil {
		return &LostError{l.reason}
	}
	if bool(C.bw_is_leader(l.c)) {
		return nil
	}
	return &LostError{l.reasonNow()}
}

// reasonNow is the reason of a loss that the library's thread may not have noticed yet.
func (l *Leadership) reasonNow() Reason {
	if reason := Reason(C.bw_reason(l.c)); reason != None {
		return reason
	}
	return Expired
}

// Transfer asks the candidate with the given ID to take over. When it is ready, this leadership is
// lost with the reason Transferred.
func (l *Leadership) Transfer(successor string) error {
	name := C.CString(successor)
	defer C.free(unsafe.Pointer(name))
	return l.do(func() C.int { return C.bw_transfer(l.c, name) })
}

// Healthy reports whether this program is fit to lead. An unfit leader loses its leadership with the
// reason Unhealthy.
func (l *Leadership) Healthy(healthy bool) error {
	return l.do(func() C.int { return C.bw_healthy(l.c, C.bool(healthy)) })
}

func (l *Leadership) do(f func() C.int) error {
	l.lock.RLock()
	defer l.lock.RUnlock()
	if l.c == nil {
		return &LostError{l.reason}
	}
	return call(f)
}

// Resign declares that the work has ended. It cancels the context, releases the leadership and waits
// until the store confirms it. The other methods do not wait for that. Further calls only wait.
func (l *Leadership) Resign() error {
	l.cancel()
	l.resigning.Lock()
	defer l.resigning.Unlock()
	c := l.take()
	if c == nil {
		return nil
	}
	err := call(func() C.int { return C.bw_resign(c) })
	closeBoth(l.handle, l.watch)
	return err
}

// take ends the use of the C leadership: when it returns, no method uses it, and none will.
func (l *Leadership) take() *C.struct_bw_leadership {
	l.lock.Lock()
	defer l.lock.Unlock()
	c := l.c
	if c == nil {
		return nil
	}
	l.reason = ShutDown
	if !bool(C.bw_is_leader(c)) {
		l.reason = l.reasonNow()
	}
	l.c = nil
	return c
}

// ---- the C side ----

func open(url string, options *C.struct_bw_options) (*C.struct_bw_handle, error) {
	text := C.CString(url)
	defer C.free(unsafe.Pointer(text))
	var handle *C.struct_bw_handle
	err := call(func() C.int { return C.bw_open(text, options, &handle) })
	return handle, err
}

// closeBoth closes a handle that leads nothing, and the watch that its callbacks use. The library
// refuses while a callback runs; that takes no longer than a write to the pipe.
func closeBoth(handle *C.struct_bw_handle, w *watch) {
	for C.bw_close(handle) == C.BW_EBUSY {
		time.Sleep(time.Millisecond)
	}
	w.close()
}

// toC returns the structs of the C library, and a function that frees their strings.
func (o *Options) toC() (options C.struct_bw_options, campaign C.struct_bw_campaign_options, free func()) {
	var strings []*C.char
	text := func(s string) *C.char {
		if s == "" {
			return nil
		}
		strings = append(strings, C.CString(s))
		return strings[len(strings)-1]
	}
	C.bw_options_init(&options, C.sizeof_struct_bw_options)
	C.bw_campaign_options_init(&campaign, C.sizeof_struct_bw_campaign_options)
	options.id = text(o.ID)
	options.ttl_ms = milliseconds(o.TTL)
	options.kill_after_ms = milliseconds(o.KillAfter)
	options.margin_ms = milliseconds(o.Margin)
	options.retry_ms = milliseconds(o.Retry)
	options.grace_ms = milliseconds(o.Grace)
	options.drift_ppm = C.uint32_t(o.DriftPPM)
	options.clock_uncertainty_ms = milliseconds(o.ClockUncertainty)
	campaign.value = text(o.Value)
	campaign.priority = C.int32_t(o.Priority)
	campaign.preferred = C.bool(o.Preferred)
	if o.Abort {
		campaign.overdue = C.BW_OVERDUE_ABORT
	}
	return options, campaign, func() {
		for _, s := range strings {
			C.free(unsafe.Pointer(s))
		}
	}
}

// milliseconds rounds up, so that a short span does not become 0, which means the default.
func milliseconds(d time.Duration) C.int64_t {
	return C.int64_t((d + time.Millisecond - 1) / time.Millisecond)
}

// call turns an error code into an error. The explanation of the library belongs to the thread.
func call(f func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	code := int(f())
	if code >= 0 {
		return nil
	}
	return &Error{Code: code, Text: C.GoString(C.bw_why())}
}

// watch is the pipe through which callbacks wake a goroutine. Reading it blocks no thread.
type watch struct {
	c       *C.struct_bw_go_watch
	read    *os.File
	write   int
	stopped chan struct{} // closed when the reader has ended
}

func newWatch() (*watch, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	c := C.bw_go_watch_new(C.int(ends[1]))
	if c == nil {
		syscall.Close(ends[0])
		syscall.Close(ends[1])
		return nil, syscall.ENOMEM
	}
	return &watch{
		c:     c,
		read:  os.NewFile(uintptr(ends[0]), "bellwether"),
		write: ends[1],
	}, nil
}

// wait returns true at the next wake-up, and false when the watch is closed.
func (w *watch) wait() bool {
	var bytes [64]byte
	n, _ := w.read.Read(bytes[:])
	return n > 0
}

// close may only be called when no callback can run: without a handle, or after bw_close.
func (w *watch) close() {
	syscall.Close(w.write)
	w.read.Close()
	C.bw_go_watch_free(w.c)
}
