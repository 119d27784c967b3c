// Many records at an even pace by franz-go: main BOOTSTRAP TOPIC COUNT RATE.
//
// Prints a line for each record that failed, and at last how many were acknowledged.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	topic, count, rate := os.Args[2], number(os.Args[3]), number(os.Args[4])
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchMaxBytes(4000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	)
	if err != nil {
		panic(err)
	}
	var acknowledged atomic.Int64
	begun := time.Now()
	for i := 0; i < count; i++ {
		due := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if ahead := time.Until(due); ahead > 2*time.Millisecond {
			time.Sleep(ahead)
		}
		record := &kgo.Record{
			Key:   []byte("k" + strconv.Itoa(i%10)),
			Value: []byte(strconv.Itoa(i)),
		}
		client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
			if err != nil {
				fmt.Printf("failed\t%s\t%v\n", r.Value, err)
				return
			}
			acknowledged.Add(1)
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		panic(err)
	}
	client.Close()
	fmt.Printf("acknowledged\t%d\n", acknowledged.Load())
}
