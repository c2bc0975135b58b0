package projection_test

import (
	"testing"

	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
)

func TestMain(m *testing.M) {
	defer postgres.Stop()
	dynamo.Main(m)
}
