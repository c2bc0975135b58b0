package dynamo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// FaultProxy stands between a store and a DynamoDB server and injects the faults that a rule asks for.
type FaultProxy struct {
	Endpoint string
	target   string
	server   *httptest.Server
	client   *http.Client
	mu       sync.Mutex
	rule     func(Request) Fault
	capacity *capacity
	swallow  []string // operations that are answered without being passed on
	answers  sync.Map // of requests with Fault.Remember, by operation and body
	counts   map[string]int
	schemas  map[string]schema // by table, learnt from CreateTable
}

// Request is what a rule decides about.
type Request struct {
	Operation string // "PutItem", "Query", …
	Number    int    // of this operation, from 1
	Body      []byte
}

// fields are those of the body. What is not JSON is the server's to refuse.
func (r Request) fields() (all map[string]json.RawMessage) {
	_ = json.Unmarshal(r.Body, &all)
	return all
}

// Writes reports whether the request changes items.
func (r Request) Writes() bool {
	switch r.Operation {
	case "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems":
		return true
	}
	return false
}

// Indexed reports whether the request reads an index.
func (r Request) Indexed() bool { return r.fields()["IndexName"] != nil }

// Fault is what happens to a request. The zero Fault lets it pass.
type Fault struct {
	Delay      time.Duration // before it is passed on
	Throttle   bool          // refused in the shape of its operation; the second half of a batch is returned as not processed
	Status     int           // answered with this status and an internal error, without being passed on
	LoseAnswer bool          // passed on, and the connection closed instead of the answer
	StatusLate int           // passed on, and answered with this status and an internal error
	Garble     bool          // passed on, and the answer cut in the middle of its JSON
	After      func()        // called before the answer is sent
	Remember   bool          // answered as the same request was before, so that the server takes no time
	HideNewest int           // items with the highest numbers left out of the answer of an index query
}

// NewFaultProxy starts a proxy in front of the server at endpoint.
func NewFaultProxy(endpoint string) *FaultProxy {
	p := &FaultProxy{
		target:  endpoint,
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
		counts:  map[string]int{},
		schemas: map[string]schema{},
	}
	p.server = httptest.NewServer(p)
	p.Endpoint = p.server.URL
	return p
}

// Close ends the proxy.
func (p *FaultProxy) Close() { p.server.Close() }

// SetRule makes the proxy ask rule about every request from now on, one at a time. nil lets all requests pass.
func (p *FaultProxy) SetRule(rule func(Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// LoseNextWrite lets the next write reach the server and loses its answer.
func (p *FaultProxy) LoseNextWrite() {
	done := false
	p.SetRule(func(r Request) Fault {
		if done || !r.Writes() {
			return Fault{}
		}
		done = true
		return Fault{LoseAnswer: true}
	})
}

// Swallow makes the proxy answer requests of these operations itself, as if they had succeeded, so that the speed of the server limits no
// measurement. Without operations all requests are passed on.
func (p *FaultProxy) Swallow(operations ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = operations
}

// Counts are the requests so far, by operation.
func (p *FaultProxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// ServeHTTP is http.Handler.
func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	req := Request{Operation: operation, Body: body}
	fault, model, swallow := p.judge(&req)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case fault.Status != 0:
		refuse(w, fault.Status, "InternalServerError", nil)
		return
	case model != nil && !model.admit(p.partitions(req), req):
		fault.Throttle = true
	}
	var rest map[string]any
	if fault.Throttle {
		if rest = throttle(w, &req); rest == nil {
			return
		}
	}
	answer, known := any([]byte("{}")), swallow
	if fault.Remember {
		answer, known = p.answers.Load(operation + string(body))
	}
	if known && rest == nil {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write(answer.([]byte))
		return
	}
	p.pass(w, r, req, fault, rest, model)
}

// judge counts a request and asks the rule about it.
func (p *FaultProxy) judge(req *Request) (fault Fault, model *capacity, swallow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[req.Operation]++
	req.Number = p.counts[req.Operation]
	if req.Operation == "CreateTable" {
		p.learn(*req)
	}
	if p.rule != nil {
		fault = p.rule(*req)
	}
	return fault, p.capacity, slices.Contains(p.swallow, req.Operation)
}

// pass passes the request on and adds rest, the part of a throttled batch that is not executed, to the answer.
func (p *FaultProxy) pass(w http.ResponseWriter, r *http.Request, req Request, fault Fault, rest map[string]any, model *capacity) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.target+r.URL.Path, bytes.NewReader(req.Body))
	if err != nil {
		refuse(w, http.StatusBadGateway, "InternalServerError", nil)
		return
	}
	out.Header = r.Header.Clone()
	answer, err := p.client.Do(out)
	if err != nil {
		refuse(w, http.StatusBadGateway, "InternalServerError", nil)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		refuse(w, http.StatusBadGateway, "InternalServerError", nil)
		return
	}
	if model != nil {
		model.charge(p.partitions(req), req, len(body))
	}
	if fault.After != nil {
		fault.After()
	}
	switch {
	case fault.Garble:
		body = body[:len(body)*2/3]
		answer.Header.Del("X-Amz-Crc32")
		answer.Header.Del("Content-Length")
	case fault.LoseAnswer:
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = connection.Close()
		}
		return
	case fault.StatusLate != 0:
		refuse(w, fault.StatusLate, "InternalServerError", nil)
		return
	}
	if rest != nil || fault.HideNewest > 0 && req.Indexed() {
		body = edit(body, rest, fault.HideNewest, req)
		answer.Header.Del("X-Amz-Crc32")
		answer.Header.Del("Content-Length")
	}
	if fault.Remember {
		p.answers.Store(req.Operation+string(req.Body), body)
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body)
}

// throttle answers as the operation does when it is throttled. It keeps the first half of a batch in req and returns the second half as
// not processed.
func throttle(w http.ResponseWriter, req *Request) map[string]any {
	switch req.Operation {
	case "TransactWriteItems":
		var items []json.RawMessage
		_ = json.Unmarshal(req.fields()["TransactItems"], &items)
		reasons := make([]map[string]any, len(items))
		for i := range reasons {
			reasons[i] = map[string]any{"Code": "None"}
		}
		if len(reasons) > 0 {
			reasons[0] = map[string]any{"Code": "ThrottlingError", "Message": "throttled by the test"}
		}
		refuse(w, http.StatusBadRequest, "TransactionCanceledException", map[string]any{"CancellationReasons": reasons})
		return nil
	case "BatchWriteItem":
		var tables map[string][]json.RawMessage
		_ = json.Unmarshal(req.fields()["RequestItems"], &tables)
		left := map[string][]json.RawMessage{}
		for table, items := range tables {
			half := len(items) / 2
			if tables[table], left[table] = items[:half], items[half:]; half == 0 {
				delete(tables, table)
			}
		}
		return req.keep(w, tables, len(tables) == 0, map[string]any{"UnprocessedItems": left})
	case "BatchGetItem":
		var tables map[string]map[string]json.RawMessage
		_ = json.Unmarshal(req.fields()["RequestItems"], &tables)
		left := map[string]map[string]json.RawMessage{}
		for table, request := range tables {
			var keys []json.RawMessage
			_ = json.Unmarshal(request["Keys"], &keys)
			half := len(keys) / 2
			left[table] = maps.Clone(request)
			left[table]["Keys"], _ = json.Marshal(keys[half:])
			if request["Keys"], _ = json.Marshal(keys[:half]); half == 0 {
				delete(tables, table)
			}
		}
		return req.keep(w, tables, len(tables) == 0, map[string]any{"UnprocessedKeys": left})
	}
	refuse(w, http.StatusBadRequest, "ProvisionedThroughputExceededException", nil)
	return nil
}

// keep makes tables the rest of a batch. When nothing is left of it, the request is answered at once.
func (r *Request) keep(w http.ResponseWriter, tables any, nothing bool, rest map[string]any) map[string]any {
	if nothing {
		body, _ := json.Marshal(rest)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write(body)
		return nil
	}
	all := r.fields()
	all["RequestItems"], _ = json.Marshal(tables)
	r.Body, _ = json.Marshal(all)
	return rest
}

// edit adds rest to an answer and removes the newest items from the answer of an index query.
func edit(body []byte, rest map[string]any, hide int, req Request) []byte {
	var answer map[string]any
	if json.Unmarshal(body, &answer) != nil {
		return body
	}
	maps.Copy(answer, rest)
	if items, ok := answer["Items"].([]any); ok && hide > 0 {
		hide = min(hide, len(items))
		if string(req.fields()["ScanIndexForward"]) == "false" {
			items = items[hide:]
		} else if answer["LastEvaluatedKey"] == nil {
			items = items[:len(items)-hide]
		}
		answer["Items"], answer["Count"] = items, len(items)
	}
	edited, _ := json.Marshal(answer)
	return edited
}

func refuse(w http.ResponseWriter, status int, kind string, fields map[string]any) {
	answer := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + kind, "message": fmt.Sprintf("%s by the test", kind)}
	maps.Copy(answer, fields)
	body, _ := json.Marshal(answer)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
