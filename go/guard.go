package bellwether

// #include <bellwether.h>
// #include <stdlib.h>
import "C"

import (
	"sync"
	"unsafe"
)

// Guard rejects the tokens of former leaders before they write to a file. It keeps the highest token
// that it has accepted in PATH.guard, beside the file.
type Guard struct {
	lock sync.Mutex
	c    *C.struct_bw_guard // nil: closed
}

// OpenGuard opens the guard of the file at path.
func OpenGuard(path string) (*Guard, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why [C.BW_GUARD_WHY_MAX + 1]C.char
	g := &Guard{}
	return g, guardError(C.bw_guard_open(&g.c, name, &why[0]), &why[0])
}

// Check accepts the token, and from then on rejects every older one. ErrStale: a newer leader has
// written, so stop.
func (g *Guard) Check(token uint64) error {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.c == nil {
		return &Error{Code: C.BW_EINVAL, Text: "the guard is closed"}
	}
	var why [C.BW_GUARD_WHY_MAX + 1]C.char
	return guardError(C.bw_guard_check(g.c, C.uint64_t(token), nil, &why[0]), &why[0])
}

// Close frees the guard. The highest token stays stored.
func (g *Guard) Close() {
	g.lock.Lock()
	defer g.lock.Unlock()
	C.bw_guard_close(g.c)
	g.c = nil
}

func guardError(code C.int, why *C.char) error {
	if code == 0 {
		return nil
	}
	return &Error{Code: int(code), Text: C.GoString(why)}
}
