// franz-go: what many_producers.py does, with the same arguments and lines.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	keys        = 10
	burst       = 30
	window      = 300
	transaction = 30
	delivery    = 280 * time.Second
)

var over atomic.Bool
var printing sync.Mutex

type producer struct {
	name, kind, bootstrap, topic string
	rate, sent, first            int
	begun                        time.Time
}

func (p *producer) note(event, value, why string) {
	at := strconv.FormatFloat(float64(time.Now().UnixMilli())/1000, 'f', 3, 64)
	text := strings.Join(strings.Fields(why), " ")
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(strings.Join([]string{p.name, event, value, at, text}, "\t"))
}

func (p *producer) pace() {
	p.sent++
	if p.sent%burst != 0 {
		return
	}
	now := time.Now()
	due := time.Duration(p.sent) * time.Second / time.Duration(p.rate)
	if ahead := p.begun.Add(due).Sub(now); ahead > 0 {
		time.Sleep(ahead)
	}
	if latest := now.Add(-due - 200*time.Millisecond); latest.After(p.begun) {
		p.begun = latest
	}
}

func (p *producer) record(number int) *kgo.Record {
	return &kgo.Record{Key: []byte("k" + strconv.Itoa(number%keys)),
		Value: []byte(strconv.Itoa(number))}
}

func (p *producer) options() []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(p.bootstrap, "+")...),
		kgo.DefaultProduceTopic(p.topic),
		kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchMaxBytes(512),
		kgo.RecordDeliveryTimeout(delivery),
		kgo.ProduceRequestTimeout(15 * time.Second),
	}
	if p.kind == "transactional" {
		options = append(options, kgo.TransactionalID(p.topic))
	}
	return options
}

func (p *producer) idempotent(client *kgo.Client) error {
	slots := make(chan struct{}, window)
	for number := 0; !over.Load(); number++ {
		p.pace()
		slots <- struct{}{}
		value := strconv.Itoa(number)
		client.Produce(context.Background(), p.record(number), func(_ *kgo.Record, err error) {
			<-slots
			if err == nil {
				p.note("acknowledged", value, "")
			} else {
				p.note("failed", value, err.Error())
			}
		})
	}
	return client.Flush(context.Background())
}

// Ends with an error where it is not known what became of a transaction, which is left out then.
func (p *producer) transact(client *kgo.Client) error {
	for begin := p.first; !over.Load(); {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		var failed atomic.Pointer[error]
		for number := begin; number < begin+transaction; number++ {
			p.pace()
			client.Produce(context.Background(), p.record(number), func(_ *kgo.Record, err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			})
		}
		if err := client.Flush(context.Background()); err != nil {
			return err
		}
		if err := failed.Load(); err != nil {
			p.note("aborted", strconv.Itoa(begin), (*err).Error())
			if err := client.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
				return err
			}
			continue
		}
		if err := client.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
			p.first = begin + transaction
			return err
		}
		for number := begin; number < begin+transaction; number++ {
			p.note("acknowledged", strconv.Itoa(number), "")
		}
		begin += transaction
	}
	return nil
}

func (p *producer) run() {
	for again := true; again; {
		again = p.once() && !over.Load()
	}
	p.note("ended", "", "")
}

// Tells whether to go on with a new client: after a connection that broke in a moment that this one
// takes for the lack of a login, it does not go on. That is counted as a failure.
func (p *producer) once() bool {
	client, err := kgo.NewClient(p.options()...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if p.kind != "transactional" {
		if err := p.idempotent(client); err != nil {
			p.note("fatal", "", err.Error())
		}
		return false
	}
	if err := p.transact(client); err != nil {
		p.note("failed", strconv.Itoa(p.first), err.Error())
		return true
	}
	return false
}

func main() {
	rate, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	for _, argument := range os.Args[2:] {
		one := strings.Split(argument, ",")
		p := &producer{name: one[0], kind: one[1], bootstrap: one[2], topic: one[3],
			rate: rate, begun: time.Now()}
		running.Add(1)
		go func() {
			defer running.Done()
			p.run()
		}()
	}
	if _, err := io.ReadAll(os.Stdin); err != nil {
		panic(err)
	}
	over.Store(true)
	running.Wait()
}
