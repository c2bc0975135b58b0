package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// tokenEnv is the environment variable with the token of serve.
const tokenEnv = "ANNALS_TOKEN"

// servedView is where the page is.
type servedView struct {
	Address string `json:"address"`
	Changes bool   `json:"changes"` // it may change projections
}

func (v servedView) print(w io.Writer) { fmt.Fprintln(w, v.Address) }

func (o *options) serveCommand() *cobra.Command {
	c := &cobra.Command{Use: "serve", Short: "Serve a page that shows all of this in a browser",
		Long: "Serve a page that shows in a browser what the other commands show, until it is interrupted. It prints the address, with a token: all who have it may look, and\n" +
			"with --allow-changes also pause and resume projections, and retry or discard parked entities. The token is that of the environment variable " + tokenEnv + ",\n" +
			"or a new one. Without TLS, which a proxy adds, listen on this machine only, as without --listen."}
	f := c.Flags()
	listen := f.String("listen", "127.0.0.1:0", "address to listen on; port 0 takes a free one")
	prefix := f.String("prefix", "/", "path of the page, if a proxy passes on only that")
	changes := f.Bool("allow-changes", false, "the page may pause and resume projections, and retry or discard parked entities")
	user := f.String("user-header", "", "in place of a token: only requests with this header, in which a proxy names the user. The proxy must remove it from what it gets, and others must not reach the address: they could name any user")
	source := sourceFlag(c)
	return o.command(c, func(k *call) error {
		positions, events, err := k.stores(*source)
		if err != nil {
			return err
		}
		po := PageOptions{Prefix: *prefix, Positions: positions, Logger: slog.New(slog.NewTextHandler(k.cmd.ErrOrStderr(), nil)), Token: os.Getenv(tokenEnv)}
		switch {
		case *user != "":
			po.Token, po.User = "", func(r *http.Request) string { return r.Header.Get(*user) }
		case po.Token == "":
			po.Token = rand.Text()
		}
		po.Allow = allowed(*changes, *user)
		k.secrets = append(k.secrets, po.Token)
		page, err := newPage(k.ctx, events, k.options, po, k.program, k.secrets)
		if err != nil {
			return usage("%s", plain(err))
		}
		return k.serve(*listen, page, po, *changes)
	})
}

// allowed is the Allow of serve; nil if there is nothing to ask.
func allowed(changes bool, user string) func(r *http.Request, a Action) error {
	if !changes && user == "" {
		return nil
	}
	return func(r *http.Request, a Action) error {
		switch {
		case user != "" && r.Header.Get(user) == "":
			return errors.New("the proxy has named no user")
		case !changes && a.Name != "read":
			return errors.New("this page is read-only: it was started without --allow-changes")
		}
		return nil
	}
}

// serve serves page until the context ends.
func (k *call) serve(listen string, page http.Handler, o PageOptions, changes bool) error {
	listener, err := new(net.ListenConfig).Listen(k.ctx, "tcp", listen)
	if err != nil {
		return usage("cannot listen: %v", err)
	}
	server := &http.Server{
		Handler:           page,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	address := "http://" + listener.Addr().String() + pathPrefix(o.Prefix)
	if os.Getenv(tokenEnv) == "" && o.Token != "" {
		address += "#token=" + o.Token // a browser does not send what comes after #
	}
	err = k.emit(servedView{address, changes})
	if err == nil {
		select {
		case err = <-failed:
		case <-k.ctx.Done(): // an interrupt is how it ends
		}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(grace))
}
