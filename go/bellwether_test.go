package bellwether

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// long: a stalled machine loses no leadership by it, and nothing waits for it
const ttl = 30 * time.Second

func storeOf(t *testing.T) string {
	return "sqlite:" + filepath.Join(t.TempDir(), "e.db")
}

func campaign(t *testing.T, store, id string) *Leadership {
	t.Helper()
	lead, err := Campaign(context.Background(), store, "e", &Options{ID: id, TTL: ttl, Value: id + ":80"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lead.Resign() })
	return lead
}

// gone waits for the loss of a leadership and returns its reason.
func gone(t *testing.T, lead *Leadership) Reason {
	t.Helper()
	<-lead.Context().Done()
	var lost *LostError
	if !errors.As(lead.Err(), &lost) {
		t.Fatalf("no LostError: %v", lead.Err())
	}
	return lost.Reason
}

func TestLeadershipIsHeldUntilResign(t *testing.T) {
	store := storeOf(t)
	for want := uint64(1); want <= 2; want++ {
		lead := campaign(t, store, "a")
		if lead.Token() != want || lead.ID() != "a" || !lead.IsLeader() || lead.Err() != nil || lead.Valid() <= 0 || lead.Context().Err() != nil {
			t.Fatalf("token %d, %v, %v", lead.Token(), lead.Err(), lead.Valid())
		}
		if err := lead.Resign(); err != nil {
			t.Fatal(err)
		}
		if reason := gone(t, lead); reason != ShutDown || lead.IsLeader() || lead.Valid() != 0 || lead.Resign() != nil {
			t.Fatal(reason)
		}
	}
}

func TestSecondCandidateWaitsForTheFirst(t *testing.T) {
	store := storeOf(t)
	first := campaign(t, store, "a")
	elected := make(chan *Leadership)
	go func() {
		lead, err := Campaign(context.Background(), store, "e", &Options{ID: "b", TTL: ttl})
		if err != nil {
			t.Error(err)
		}
		elected <- lead
	}()
	_, err := Campaign(context.Background(), store, "e", &Options{ID: "c", TTL: ttl, NoWait: true})
	if !errors.Is(err, ErrTimedOut) {
		t.Fatalf("NoWait: %v", err)
	}
	select {
	case <-elected:
		t.Fatal("two leaders")
	default:
	}
	first.Resign()
	second := <-elected
	if second == nil || second.Token() <= first.Token() {
		t.Fatal("the token does not grow")
	}
	second.Resign()
}

func TestContextEndsTheWaitForElection(t *testing.T) {
	store := storeOf(t)
	campaign(t, store, "a")
	for _, within := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		_, err := Campaign(ctx, store, "e", &Options{ID: "b", TTL: ttl})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

func TestCancelledParentCancelsTheWorkAndKeepsTheLeadership(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	lead, err := Campaign(ctx, storeOf(t), "e", &Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-lead.Context().Done()
	if !lead.IsLeader() || lead.Err() != nil {
		t.Fatal("released before Resign")
	}
	lead.Resign()
}

func TestLossCancelsTheContextWithItsReason(t *testing.T) {
	lead := campaign(t, storeOf(t), "a")
	if err := lead.Healthy(false); err != nil {
		t.Fatal(err)
	}
	if reason := gone(t, lead); reason != Unhealthy || reason.String() != "unhealthy" || lead.IsLeader() {
		t.Fatal(reason)
	}
	lead.Resign()
	if reason := gone(t, lead); reason != Unhealthy {
		t.Fatalf("Resign changed the reason to %v", reason)
	}
}

func TestLeadershipIsLostWhenTheStoreIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.db")
	lead, err := Campaign(context.Background(), "sqlite:"+path, "e", &Options{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if reason := gone(t, lead); reason == None || reason == ShutDown {
		t.Fatal(reason)
	}
	lead.Resign()
}

func TestRunReportsTheLossAndTheErrorOfTheWork(t *testing.T) {
	store, failed := storeOf(t), errors.New("failed")
	err := Run(context.Background(), store, "e", &Options{TTL: ttl}, func(context.Context, *Leadership) error { return failed })
	if err != failed {
		t.Fatal(err)
	}
	err = Run(context.Background(), store, "e", &Options{TTL: ttl}, func(ctx context.Context, lead *Leadership) error {
		lead.Healthy(false)
		<-ctx.Done()
		return ctx.Err()
	})
	var lost *LostError
	if !errors.As(err, &lost) || lost.Reason != Unhealthy {
		t.Fatal(err)
	}
	func() { // a panic must not keep the leadership
		defer func() { recover() }()
		Run(context.Background(), store, "e", &Options{TTL: ttl}, func(context.Context, *Leadership) error { panic("x") })
	}()
	campaign(t, store, "next")
}

func TestLeadershipIsTransferred(t *testing.T) {
	store := storeOf(t)
	first := campaign(t, store, "a")
	ready := make(chan *Leadership)
	go func() {
		lead, err := Campaign(context.Background(), store, "e", &Options{ID: "b", TTL: ttl})
		if err != nil {
			t.Error(err)
		}
		ready <- lead
	}()
	if err := first.Transfer("nobody's id, which is far too long for a candidate: it has more than 63 bytes"); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	for first.IsLeader() {
		first.Transfer("b") // until b is known to the store
		time.Sleep(10 * time.Millisecond)
	}
	if reason := gone(t, first); reason != Transferred {
		t.Fatal(reason)
	}
	first.Resign()
	second := <-ready
	if err := first.Transfer("b"); err == nil {
		t.Fatal("transferred after Resign")
	}
	second.Resign()
}

func TestObserverFollowsTheLeader(t *testing.T) {
	store := storeOf(t)
	first := campaign(t, store, "a")
	ctx, cancel := context.WithCancel(context.Background())
	changes, err := Observe(ctx, store, "e")
	if err != nil {
		t.Fatal(err)
	}
	until := func(id string) {
		t.Helper()
		for leader := range changes {
			if leader.ID == id {
				if id != "" && (leader.Token == 0 || leader.Value != id+":80") {
					t.Fatal(leader)
				}
				return
			}
		}
		t.Fatal("the channel was closed")
	}
	until("a")
	first.Resign()
	until("")
	campaign(t, store, "b")
	until("b")
	if leader, err := Leader(store, "e"); err != nil || leader.ID != "b" || leader.Value != "b:80" {
		t.Fatal(leader, err)
	}
	cancel()
	for range changes {
	}
}

func TestGuardRejectsOlderTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.csv")
	guard, err := OpenGuard(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token uint64
		want  error
	}{{7, nil}, {7, nil}, {6, ErrStale}, {8, nil}, {7, ErrStale}, {0, ErrNoToken}} {
		if err := guard.Check(c.token); !errors.Is(err, c.want) {
			t.Fatalf("token %d: %v", c.token, err)
		}
	}
	guard.Close()
	guard.Close()
	if guard.Check(9) == nil {
		t.Fatal("a closed guard accepts")
	}
	if _, err := OpenGuard("/nonexistent/directory/file"); err == nil || err.Error() == "" {
		t.Fatal(err)
	}
}

func openGuard(t *testing.T, path string) *Guard {
	t.Helper()
	guard, err := OpenGuard(path)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// Two guards of one file exclude each other as two processes do.
func TestHeldGuardMakesANewerLeaderWaitForTheWrite(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "report.csv"), context.Background()
	older, newer := openGuard(t, path), openGuard(t, path)
	defer older.Close()
	defer newer.Close()
	written := make(chan uint64, 8)
	write := func(token uint64) func() error {
		return func() error {
			written <- token
			return nil
		}
	}
	waiting := make(chan error)
	err := older.Hold(ctx, 7, func() error {
		brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := newer.Hold(brief, 8, write(8)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("did not wait: %v", err)
		}
		go func() { waiting <- newer.Hold(ctx, 8, write(8)) }()
		select {
		case err := <-waiting:
			t.Fatalf("did not wait: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		return write(7)()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if first, second := <-written, <-written; first != 7 || second != 8 {
		t.Fatal(first, second)
	}
	if err := older.Hold(ctx, 7, write(7)); !errors.Is(err, ErrStale) || len(written) != 0 {
		t.Fatal(err)
	}
}

func TestHoldEndsWithItsWrite(t *testing.T) {
	path, ctx, failed := filepath.Join(t.TempDir(), "report.csv"), context.Background(), errors.New("failed")
	guard := openGuard(t, path)
	if err := guard.Hold(ctx, 1, func() error { return failed }); err != failed {
		t.Fatal(err)
	}
	func() {
		defer func() { recover() }()
		guard.Hold(ctx, 1, func() error { panic("x") })
	}()
	if err := guard.Hold(ctx, 1, func() error { return guard.Check(1) }); err != nil {
		t.Fatal(err)
	}
	if err := guard.Hold(ctx, 0, func() error { return failed }); !errors.Is(err, ErrNoToken) {
		t.Fatal(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := guard.Hold(done, 1, func() error { return failed }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	guard.Close()
	if err := guard.Hold(ctx, 1, func() error { return failed }); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
}

func TestGoroutinesTakeTurnsAtAHeldGuard(t *testing.T) {
	guard, count := openGuard(t, filepath.Join(t.TempDir(), "report.csv")), 0
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 10; j++ {
				err := guard.Hold(context.Background(), 1, func() error {
					count++ // a data race if two goroutines are inside
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	guard.Close()
	if count != 80 {
		t.Fatal(count)
	}
}

func TestCloseWaitsForTheWriteAndEndsTheWaitForTheLock(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "report.csv"), context.Background()
	guard, other := openGuard(t, path), openGuard(t, path)
	inside, goOn, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	go guard.Hold(ctx, 1, func() error {
		close(inside)
		<-goOn
		ended.Store(true)
		return nil
	})
	<-inside
	waiting := make(chan error)
	go func() { waiting <- other.Hold(ctx, 1, func() error { return nil }) }()
	for len(other.holder) == 0 {
		time.Sleep(time.Millisecond)
	}
	other.Close()
	if err := <-waiting; !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	go func() {
		defer close(closed)
		guard.Close()
		if !ended.Load() {
			t.Error("Close did not wait for the write")
		}
	}()
	for !guard.closing.Load() {
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	<-closed
}

func TestErrorsNameTheirCause(t *testing.T) {
	_, err := Campaign(context.Background(), "nothing://x", "e", nil)
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, ErrInvalid) || failure.Name() != "EINVAL" || failure.Text == "" || failure.Retryable() {
		t.Fatal(err)
	}
	if _, err = Campaign(context.Background(), storeOf(t), "", nil); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if _, err = Campaign(context.Background(), storeOf(t), "e", &Options{TTL: time.Second, KillAfter: time.Hour}); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if _, err = Observe(context.Background(), "nothing://x", "e"); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if _, err = Leader("nothing://x", "e"); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
}

func TestGoroutinesShareALeadershipUntilItIsResigned(t *testing.T) {
	lead := campaign(t, storeOf(t), "a")
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for lead.IsLeader() {
				lead.Valid()
				lead.Err()
				lead.Healthy(true)
			}
		}()
	}
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			lead.Resign()
		}()
	}
	group.Wait()
}

// The write lock of a SQLite database is a byte of its -shm file: the store waits for it.
func TestResignKeepsNobodyWaitingForTheStore(t *testing.T) {
	const setLock, writeLock = 37, 120 // F_OFD_SETLK, the byte
	path := filepath.Join(t.TempDir(), "e.db")
	lead := campaign(t, "sqlite:"+path, "a")
	shm, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shm.Close() })
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: writeLock, Len: 1}
	for syscall.FcntlFlock(shm.Fd(), setLock, &lock) != nil { // a renewal may hold it
		time.Sleep(time.Millisecond)
	}
	var unlocked, early atomic.Bool
	resigned := make(chan struct{})
	go func() {
		defer close(resigned)
		lead.Resign()
		early.Store(!unlocked.Load())
	}()
	for lead.IsLeader() {
		time.Sleep(time.Millisecond)
	}
	if reason := gone(t, lead); reason != ShutDown || lead.Valid() != 0 || lead.Healthy(true) == nil {
		t.Fatal(reason)
	}
	time.Sleep(50 * time.Millisecond) // if the methods waited for Resign, it has ended by now
	unlocked.Store(true)
	lock.Type = syscall.F_UNLCK
	if err := syscall.FcntlFlock(shm.Fd(), setLock, &lock); err != nil {
		t.Fatal(err)
	}
	<-resigned
	if early.Load() {
		t.Fatal("Resign ended before the store could confirm it")
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	store := storeOf(t)
	descriptors := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(names)
	}
	round := func() {
		lead := campaign(t, store, "a")
		ctx, cancel := context.WithCancel(context.Background())
		changes, err := Observe(ctx, store, "e")
		if err != nil {
			t.Fatal(err)
		}
		<-changes
		cancel()
		for range changes {
		}
		lead.Resign()
	}
	round()
	before := descriptors()
	for i := 0; i < 5; i++ {
		round()
	}
	for descriptors() > before || runtime.NumGoroutine() > 20 { // the test hangs, and fails, if not
		time.Sleep(time.Millisecond)
	}
}
