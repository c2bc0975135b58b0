package projection_test

import (
	"os"
	"testing"

	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
)

// children are the functions that the test binary runs as another process, by the variable that names the database.
var children = map[string]func(database string) error{}

func TestMain(m *testing.M) {
	for name, play := range children {
		if database := os.Getenv(name); database != "" {
			if err := play(database); err != nil {
				panic(err)
			}
			return
		}
	}
	defer postgres.Stop()
	dynamo.Main(m)
}
