// etcd_elect: a candidate that uses etcd's Go client (clientv3/concurrency). The tests of the etcd store
// run it as a foreign candidate.
//
//    etcd_elect ENDPOINTS PREFIX VALUE TTL
//
// It prints READY when it has a session, and "LEADER TOKEN" when it leads. When it reads the line
// "resign" on its standard input, it resigns.
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
