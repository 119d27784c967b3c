// Uses every partition of a topic by TLS: oneport BOOTSTRAP CA TOPIC PARTITIONS.
//
// Produces a record to each partition, reads all of them as a group, and prints what it has read.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[3]
	partitions, err := strconv.Atoi(os.Args[4])
	must(err)
	authority, err := os.ReadFile(os.Args[2])
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	must(err)
	defer client.Close()
	for i := 0; i < partitions; i++ {
		record := &kgo.Record{Topic: topic, Partition: int32(i), Value: []byte("franz-go-" + strconv.Itoa(i))}
		must(client.ProduceSync(ctx, record).FirstErr())
	}
	var found []string
	for len(found) < partitions {
		fetches := client.PollFetches(ctx)
		must(fetches.Err0())
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	sort.Strings(found)
	for _, value := range found {
		fmt.Println(value)
	}
}
