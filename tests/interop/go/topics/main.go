// A topic's own policies by kadm: topics BOOTSTRAP TOPIC.
//
// Prints a line for each thing that happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	policy     = "records.policy.class.name"
	enabled    = "records.policy.enabled"
	validation = "record.validation.policy"
	retention  = "retention.ms"
)

var shown = []string{validation, policy, enabled, retention}

type round struct {
	ctx    context.Context
	client *kgo.Client
	admin  *kadm.Client
	topic  string
}

// report prints what became of something: the name of Kafka's error, and the text if there is one.
func report(what string, err error, text string) {
	if err == nil {
		fmt.Println(what)
		return
	}
	var known *kerr.Error
	if !errors.As(err, &known) {
		panic(err)
	}
	fmt.Printf("not %s\t%s\t%s\n", what, known.Message, text)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (r *round) create(configs map[string]string) {
	pointers := map[string]*string{}
	for name, value := range configs {
		pointers[name] = &value
	}
	created, err := r.admin.CreateTopic(r.ctx, 1, 1, pointers, r.topic)
	report("created", err, created.ErrMessage)
	if err != nil {
		return
	}
	r.awaitKnown(created.ID)
	if len(configs) == 0 {
		return
	}
	for _, name := range shown {
		config := created.Configs[name]
		fmt.Printf("described\t%s\t%s\t%s\n", name, config.MaybeValue(), config.Source)
	}
}

// awaitKnown: a broker answers before it knows the new topic itself, and may still know a deleted one.
func (r *round) awaitKnown(id kadm.TopicID) {
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		topics, err := r.admin.ListTopics(r.ctx, r.topic)
		must(err)
		if topics[r.topic].ID == id {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	must(errors.New("not known after 30 s: " + r.topic))
}

func (r *round) delete() {
	deleted, err := r.admin.DeleteTopic(r.ctx, r.topic)
	report("deleted", err, deleted.ErrMessage)
}

func (r *round) describe() {
	described, err := r.admin.DescribeTopicConfigs(r.ctx, r.topic)
	must(err)
	configs, err := described.On(r.topic, nil)
	must(err)
	found := map[string]kadm.Config{}
	for _, config := range configs.Configs {
		found[config.Key] = config
	}
	for _, name := range shown {
		config := found[name]
		value := "null"
		if config.Value != nil {
			value = *config.Value
		}
		fmt.Printf("config\t%s\t%s\t%s\n", name, value, config.Source)
	}
}

func set(name, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
}

func unset(name string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name}
}

func (r *round) alter(changes ...kadm.AlterConfig) {
	answers, err := r.admin.AlterTopicConfigs(r.ctx, changes, r.topic)
	must(err)
	report("altered", answers[0].Err, answers[0].ErrMessage)
}

// replace uses the old AlterConfigs, which resets what is left out.
func (r *round) replace(configs ...kadm.AlterConfig) {
	answers, err := r.admin.AlterTopicConfigsState(r.ctx, configs, r.topic)
	must(err)
	report("replaced", answers[0].Err, answers[0].ErrMessage)
}

func (r *round) produce(values ...string) {
	for _, value := range values {
		record := &kgo.Record{Topic: r.topic, Value: []byte(value)}
		report("stored "+value, r.client.ProduceSync(r.ctx, record).FirstErr(), "")
	}
}

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	must(err)
	defer client.Close()
	r := round{context.Background(), client, kadm.NewClient(client), os.Args[2]}

	r.create(map[string]string{policy: "policies.NotAllowed", enabled: "true"})
	r.create(map[string]string{policy: "policies.NoBad", enabled: "true", retention: "86400000"})
	r.produce("bad-1", "good-1")
	r.describe()
	r.alter(set(enabled, "false"))
	r.produce("bad-2")
	r.alter(set(policy, "policies.NotAllowed"))
	r.alter(set(enabled, "maybe"))
	r.alter(set(enabled, "true"), set(retention, "long"))
	r.replace(set(policy, "policies.NoBad"), set(enabled, "true"))
	r.produce("bad-3")
	r.describe()
	r.alter(unset(policy), unset(enabled), set(validation, "worse"))
	r.produce("worse-1", "bad-4")
	r.delete()
	r.create(nil)
	r.describe()
}
