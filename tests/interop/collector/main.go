// Log lines to Kafka by the exporter of the OpenTelemetry Collector: collector FILE (BOOTSTRAP TOPIC)...
//
// For each topic it exports the lines at once, with the exporter's defaults but the timeout, and prints what the
// exporter logs: a JSON object a line, with the name of the topic as `exporter`.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	metrics "go.opentelemetry.io/otel/metric/noop"
	traces "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

// noExtensions is a collector that has nothing but the exporter.
type noExtensions struct{}

func (noExtensions) GetExtensions() map[component.ID]component.Component { return nil }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func logger() *zap.Logger {
	config := zap.NewProductionConfig()
	config.OutputPaths = []string{"stdout"}
	config.Sampling = nil
	made, err := config.Build()
	must(err)
	return made
}

func logs(lines []string) plog.Logs {
	made := plog.NewLogs()
	records := made.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, line := range lines {
		records.AppendEmpty().Body().SetEmptyBytes().FromRaw([]byte(line)) // a text would be quoted
	}
	return made
}

func export(lines []string, bootstrap, topic string) {
	ctx := context.Background()
	factory := kafkaexporter.NewFactory()
	config := factory.CreateDefaultConfig().(*kafkaexporter.Config)
	config.ClientConfig.Brokers = []string{bootstrap}
	config.Logs.Topic, config.Logs.Encoding = topic, "raw"
	config.TimeoutSettings.Timeout = time.Minute // a slow machine is no failure
	must(config.Validate())
	settings := exporter.Settings{
		ID: component.NewIDWithName(factory.Type(), topic),
		TelemetrySettings: component.TelemetrySettings{
			Logger:         logger().With(zap.String("exporter", topic)),
			TracerProvider: traces.NewTracerProvider(),
			MeterProvider:  metrics.NewMeterProvider(),
			Resource:       pcommon.NewResource(),
		},
	}
	made, err := factory.CreateLogs(ctx, settings, config)
	must(err)
	must(made.Start(ctx, noExtensions{}))
	must(made.ConsumeLogs(ctx, logs(lines)))
	must(made.Shutdown(ctx)) // when its queue is empty
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	must(err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for at := 2; at < len(os.Args); at += 2 {
		export(lines, os.Args[at], os.Args[at+1])
	}
}
