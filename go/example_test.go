package bellwether_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"bellwether"
)

func Example() {
	directory, err := os.MkdirTemp("", "bellwether")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	store := "sqlite:" + filepath.Join(directory, "elections.db")

	lead, err := bellwether.Campaign(context.Background(), store, "nightly", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer lead.Resign()
	fmt.Println("leading with token", lead.Token())
	// Output: leading with token 1
}
