// etcd_elect: a candidate as Go programs are, on clientv3/concurrency. For the tests of the etcd store.
//
//    etcd_elect ENDPOINTS PREFIX VALUE TTL
//
// Says READY when it has a session, LEADER TOKEN when it leads; a line "resign" on its input resigns.
package main

import (
    "bufio"
    "context"
    "fmt"
    "os"
    "strconv"
    "strings"
    "time"

    "go.etcd.io/etcd/clientv3"
    "go.etcd.io/etcd/clientv3/concurrency"
)

func must(err error) {
    if err != nil {
        fmt.Fprintln(os.Stderr, "etcd_elect:", err)
        os.Exit(1)
    }
}

func main() {
    ttl, err := strconv.Atoi(os.Args[4])
    must(err)
    client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 10 * time.Second})
    must(err)
    session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
    must(err)
    election := concurrency.NewElection(session, os.Args[2])
    fmt.Println("READY")
    must(election.Campaign(context.Background(), os.Args[3]))
    fmt.Println("LEADER", election.Rev())
    if input := bufio.NewScanner(os.Stdin); input.Scan() && input.Text() == "resign" {
        must(election.Resign(context.Background()))
        fmt.Println("RESIGNED")
    }
}
