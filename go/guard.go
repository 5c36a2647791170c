package bellwether

// #include <bellwether.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// holdRetry is the pause before Hold asks again for a lock that another process holds. The kernel
// has no wait for it that a context can end.
const holdRetry = 10 * time.Millisecond

// Guard rejects the tokens of former leaders before they write to a file. It keeps the highest token
// that it has accepted in PATH.guard, beside the file.
type Guard struct {
	holder  chan struct{} // full while a goroutine is inside Hold
	closing atomic.Bool

	lock sync.Mutex         // held while c is used
	c    *C.struct_bw_guard // nil: closed
}

// OpenGuard opens the guard of the file at path.
func OpenGuard(path string) (*Guard, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why [C.BW_GUARD_WHY_MAX + 1]C.char
	g := &Guard{holder: make(chan struct{}, 1)}
	return g, guardError(C.bw_guard_open(&g.c, name, &why[0]), &why[0])
}

// Hold checks the token, locks the guard, and calls write, which writes to the file. The lock ends
// with write, also if it panics. A newer leader that uses Hold, too, waits until then, also if this
// process is stopped inside write. Every older token is rejected from then on.
//
// Hold returns the error of write. Without calling write, it returns ErrStale if a newer leader has
// written, and the error of ctx if ctx is done before the lock is free. An end of ctx does not end
// write. Hold and Close must not be called inside write: they would wait for it forever.
func (g *Guard) Hold(ctx context.Context, token uint64, write func() error) error {
	if g.holder == nil {
		return errGuardClosed
	}
	select {
	case g.holder <- struct{}{}:
		defer func() { <-g.holder }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for held := false; !held; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if held, err = g.tryHold(token); err != nil {
			return err
		}
		if !held {
			pause(ctx, holdRetry)
		}
	}
	defer g.release()
	return write()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tryHold returns false without an error if another holder has the lock.
func (g *Guard) tryHold(token uint64) (bool, error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.c == nil || g.closing.Load() {
		return false, errGuardClosed
	}
	var why [C.BW_GUARD_WHY_MAX + 1]C.char
	var verdict C.struct_bw_guard_verdict
	code := C.bw_guard_hold(g.c, C.uint64_t(token), 0, &verdict, &why[0])
	if code == C.BW_EBUSY && verdict.error == 0 {
		return false, nil
	}
	return code == 0, guardError(code, &why[0])
}

func (g *Guard) release() {
	g.lock.Lock()
	defer g.lock.Unlock()
	C.bw_guard_release(g.c)
}

// Check accepts the token, and from then on rejects every older one. ErrStale: a newer leader has
// written, so stop. A newer leader may check and write between this call and a write that follows
// it: use Hold if the file must not be written late.
func (g *Guard) Check(token uint64) error {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.c == nil {
		return errGuardClosed
	}
	var why [C.BW_GUARD_WHY_MAX + 1]C.char
	return guardError(C.bw_guard_check(g.c, C.uint64_t(token), nil, &why[0]), &why[0])
}

// Close waits until no goroutine is inside the write of Hold, and frees the guard. A Hold that still
// waits for the lock ends with an error. The highest token stays stored.
func (g *Guard) Close() {
	g.closing.Store(true)
	if g.holder != nil {
		g.holder <- struct{}{}
		defer func() { <-g.holder }()
	}
	g.lock.Lock()
	defer g.lock.Unlock()
	C.bw_guard_close(g.c)
	g.c = nil
}

var errGuardClosed = &Error{Code: C.BW_EINVAL, Text: "the guard is closed"}

func guardError(code C.int, why *C.char) error {
	if code == 0 {
		return nil
	}
	return &Error{Code: int(code), Text: C.GoString(why)}
}
