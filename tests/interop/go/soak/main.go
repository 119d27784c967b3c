// franz-go: what librdkafka.py does, with the same arguments and lines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	keys        = 10
	burst       = 10
	transaction = 12
	window      = 200
	delivery    = 60 * time.Second
)

var over atomic.Bool
var printing sync.Mutex

type sender struct {
	bootstrap, name, kind, topic, mix string
	rate, number, run                 int
	begun                             time.Time
}

func (s *sender) note(run int, event, numbers, why string) {
	at := strconv.FormatFloat(float64(time.Now().UnixMilli())/1000, 'f', 3, 64)
	text := strings.Join(strings.Fields(why), " ")
	if len(text) > 200 {
		text = text[:200]
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(strings.Join([]string{s.name, strconv.Itoa(run), event, numbers, at, text}, "\t"))
}

func (s *sender) pace() {
	if s.number%burst != 0 {
		return
	}
	now := time.Now()
	due := time.Duration(s.number) * time.Second / time.Duration(s.rate)
	if ahead := s.begun.Add(due).Sub(now); ahead > 0 {
		time.Sleep(ahead)
	}
	if latest := now.Add(-due - 200*time.Millisecond); latest.After(s.begun) {
		s.begun = latest
	}
}

func (s *sender) next() *kgo.Record {
	letter := s.mix[s.number%len(s.mix)]
	value := fmt.Sprintf("%c:%s:%d:%d", letter, s.name, s.run, s.number)
	key := "k" + strconv.Itoa(s.number%keys)
	s.number++
	return &kgo.Record{Key: []byte(key), Value: []byte(value)}
}

func isRefusal(err error) bool {
	return errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.PolicyViolation)
}

// The first words: what stands behind them, such as an address, is not the same twice.
func text(err error) string {
	words := strings.Fields(err.Error())
	return strings.Join(words[:min(6, len(words))], " ")
}

func (s *sender) options() []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.bootstrap),
		kgo.DefaultProduceTopic(s.topic),
		kgo.ProducerLinger(2 * time.Millisecond),
		kgo.ProducerBatchMaxBytes(1024),
		kgo.RecordDeliveryTimeout(delivery),
		kgo.ProduceRequestTimeout(20 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}
	switch s.kind {
	case "plain":
		options = append(options, kgo.DisableIdempotentWrite())
	case "transactional":
		options = append(options, kgo.TransactionalID(s.name))
	}
	return options
}

// Gives why it cannot go on; nil when all is over.
func (s *sender) steady(client *kgo.Client) error {
	var broken atomic.Pointer[error]
	slots := make(chan struct{}, window)
	run := s.run
	for !over.Load() && broken.Load() == nil {
		s.pace()
		slots <- struct{}{}
		number := strconv.Itoa(s.number)
		client.Produce(context.Background(), s.next(), func(_ *kgo.Record, err error) {
			<-slots
			switch {
			case err == nil:
				s.note(run, "acknowledged", number, "")
			case isRefusal(err):
				s.note(run, "refused", number, text(err))
			default:
				s.note(run, "unknown", number, text(err))
			}
			if err != nil && s.kind != "plain" {
				broken.CompareAndSwap(nil, &err)
			}
		})
	}
	ending, cancel := context.WithTimeout(context.Background(), delivery+10*time.Second)
	defer cancel()
	if err := client.Flush(ending); err != nil {
		return err
	}
	if err := broken.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *sender) transact(client *kgo.Client) error {
	for !over.Load() {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		first := s.number
		var failed atomic.Pointer[error]
		for i := 0; i < transaction; i++ {
			s.pace()
			client.Produce(context.Background(), s.next(), func(_ *kgo.Record, err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			})
		}
		told := fmt.Sprintf("%d-%d", first, s.number-1)
		limit, cancel := context.WithTimeout(context.Background(), delivery+10*time.Second)
		err := s.end(limit, client, told, &failed)
		cancel()
		if err != nil {
			s.note(s.run, "unknown", told, text(err))
			return err
		}
	}
	return nil
}

func (s *sender) end(limit context.Context, client *kgo.Client, told string,
	failed *atomic.Pointer[error]) error {
	if err := client.Flush(limit); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		if aborted := client.EndTransaction(limit, kgo.TryAbort); aborted != nil {
			return aborted
		}
		s.note(s.run, "aborted", told, text(*err))
		return nil
	}
	if err := client.EndTransaction(limit, kgo.TryCommit); err != nil {
		return err
	}
	s.note(s.run, "committed", told, "")
	return nil
}

func (s *sender) all() {
	for !over.Load() {
		s.run++
		client, err := kgo.NewClient(s.options()...)
		if err != nil {
			panic(err)
		}
		if s.kind == "transactional" {
			err = s.transact(client)
		} else {
			err = s.steady(client)
		}
		if err != nil {
			s.note(s.run, "dead", "", text(err))
			time.Sleep(500 * time.Millisecond)
		}
		client.Close()
	}
	s.note(s.run, "ended", "", "")
}

func main() {
	rate, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	for _, argument := range os.Args[4:] {
		one := strings.Split(argument, ",")
		s := &sender{bootstrap: os.Args[1], name: one[0], kind: one[1], topic: one[2], mix: one[3],
			rate: rate, begun: time.Now()}
		running.Add(1)
		go func() {
			defer running.Done()
			s.all()
		}()
	}
	if _, err := io.ReadAll(os.Stdin); err != nil {
		panic(err)
	}
	over.Store(true)
	running.Wait()
}
