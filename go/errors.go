package bellwether

// #include <bellwether.h>
import "C"

// Error of the library. Compare it with errors.Is and the Err variables.
type Error struct {
	Code int    // a negative enum bw_error
	Text string // the cause, as one line
}

// Errors that a program may want to tell apart. bellwether.h explains every code.
var (
	ErrInvalid     = &Error{Code: C.BW_EINVAL}       // an invalid argument, or times that do not fit together
	ErrNotLeader   = &Error{Code: C.BW_ENOTLEADER}   // this candidate does not lead
	ErrBusy        = &Error{Code: C.BW_EBUSY}        // a recovery of the guard is in progress
	ErrStale       = &Error{Code: C.BW_ESTALE}       // a newer leader has written: stop the work
	ErrIO          = &Error{Code: C.BW_EIO}          // the store or the file cannot be reached
	ErrDamaged     = &Error{Code: C.BW_EDAMAGED}     // stored data is corrupt
	ErrDenied      = &Error{Code: C.BW_EDENIED}      // not permitted
	ErrUnsupported = &Error{Code: C.BW_EUNSUPPORTED} // cannot be done safely here
	ErrNoToken     = &Error{Code: C.BW_ENOTOKEN}     // a guard was given token 0
	ErrTimedOut    = &Error{Code: C.BW_ETIMEDOUT}    // not elected at once, with NoWait

	errInterrupted = &Error{Code: C.BW_EINTERRUPTED}
)

// Name of the code, for example "EINVAL".
func (e *Error) Name() string { return C.GoString(C.bw_error_name(C.int(e.Code))) }

func (e *Error) Error() string {
	if e.Text == "" {
		return C.GoString(C.bw_error_text(C.int(e.Code)))
	}
	return e.Text
}

// Is reports whether the codes are equal.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Retryable reports whether a retry may succeed.
func (e *Error) Retryable() bool { return bool(C.bw_error_retryable(C.int(e.Code))) }

// Reason why a leadership ended.
type Reason int

// The reasons of the library.
const (
	None        Reason = C.BW_LOSS_NONE        // it has not ended
	Expired     Reason = C.BW_LOSS_EXPIRED     // no renewal succeeded in time
	Taken       Reason = C.BW_LOSS_TAKEN       // the store reports another holder
	Resigned    Reason = C.BW_LOSS_RESIGNED    // a user or another program asked for it
	Transferred Reason = C.BW_LOSS_TRANSFERRED // handed over to a named successor
	Unhealthy   Reason = C.BW_LOSS_UNHEALTHY   // Healthy(false) was called
	Unreachable Reason = C.BW_LOSS_UNREACHABLE // the store could not be reached in time
	ShutDown    Reason = C.BW_LOSS_SHUT_DOWN   // Resign was called
)

func (r Reason) String() string { return C.GoString(C.bw_loss_name(C.enum_bw_loss(r))) }

// LostError says that the leadership has ended.
type LostError struct{ Reason Reason }

func (e *LostError) Error() string { return "leadership lost: " + e.Reason.String() }
