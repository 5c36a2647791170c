package bellwether

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"unsafe"
)

// LeaderInfo describes the leader of an election. An empty ID means that there is no leader.
type LeaderInfo struct {
	ID    string
	Token uint64
	Value string
}

func infoOf(c *C.struct_bw_leader_info) LeaderInfo {
	return LeaderInfo{C.GoString(&c.id[0]), uint64(c.token), C.GoString(&c.value[0])}
}

// Leader reads the current leader of the election from the store at url.
func Leader(url, election string) (LeaderInfo, error) {
	handle, err := open(url, nil)
	if err != nil {
		return LeaderInfo{}, err
	}
	defer C.bw_close(handle)
	name := C.CString(election)
	defer C.free(unsafe.Pointer(name))
	var info C.struct_bw_leader_info
	C.bw_leader_info_init(&info, C.sizeof_struct_bw_leader_info)
	err = call(func() C.int { return C.bw_leader(handle, name, &info) })
	return infoOf(&info), err
}

// Observe sends the current leader, and then each change, until ctx is done; then it closes the
// channel. Changes in quick succession, or while nobody receives, are sent as one.
func Observe(ctx context.Context, url, election string) (<-chan LeaderInfo, error) {
	w, err := newWatch()
	if err != nil {
		return nil, err
	}
	options, campaign, free := (&Options{}).toC()
	defer free()
	C.bw_go_watch_leader(w.c, &options, &campaign)
	handle, err := open(url, &options)
	if err != nil {
		w.close()
		return nil, err
	}
	name := C.CString(election)
	defer C.free(unsafe.Pointer(name))
	var candidacy *C.struct_bw_leadership
	if err := call(func() C.int { return C.bw_contend(handle, name, &campaign, &candidacy) }); err != nil {
		closeBoth(handle, w)
		return nil, err
	}
	changes := make(chan LeaderInfo)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(changes)
		for w.wait() {
			var info C.struct_bw_leader_info
			C.bw_go_watch_latest(w.c, &info)
			select {
			case changes <- infoOf(&info):
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		<-ctx.Done()
		w.read.Close() // wakes the sender
		<-ended
		closeBoth(handle, w)
	}()
	return changes, nil
}
