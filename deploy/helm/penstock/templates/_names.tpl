{{- define "penstock.name" -}}
{{- if .Values.nameOverride -}}
{{- .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "penstock.tokenSecret" -}}
{{- if not (or .Values.metrics.token.existingSecret .Values.metrics.token.generate) -}}
{{ fail "metrics.token: name a Secret in existingSecret. Or set generate to true: with helm install and helm upgrade the chart generates a token, and keeps one that it has generated" }}
{{- end -}}
{{- .Values.metrics.token.existingSecret | default (printf "%s-metrics" (include "penstock.name" .)) -}}
{{- end -}}

{{- /* The generated token in base64: that of the cluster, or a new one, the same in all templates. */ -}}
{{- define "penstock.token" -}}
{{- if not (hasKey .Values.metrics.token "generated") -}}
{{- $before := lookup "v1" "Secret" .Release.Namespace (include "penstock.tokenSecret" .) -}}
{{- $_ := set .Values.metrics.token "generated" (dig "data" .Values.metrics.token.key (randAlphaNum 32 | b64enc) ($before | default dict)) -}}
{{- end -}}
{{- get .Values.metrics.token "generated" -}}
{{- end -}}

{{- define "penstock.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- .Values.image.repository }}:{{ $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- define "penstock.mostReplicas" -}}
{{- .Values.autoscaling.enabled | ternary .Values.autoscaling.maxReplicas .Values.replicas -}}
{{- end -}}

{{- /* What its schema cannot say of the values. */ -}}
{{- define "penstock.check" -}}
{{- $first := int .Values.listener.port -}}
{{- $last := eq .Values.brokers.addresses "ports" | ternary (add $first .Values.brokers.ports) $first | int -}}
{{- $metrics := int .Values.metrics.port -}}
{{- if gt $last 65535 }}{{ fail (printf "brokers.ports: %d ports after listener.port %d end at %d: the highest port is 65535" (int .Values.brokers.ports) $first $last) }}{{ end -}}
{{- if and (ge $metrics $first) (le $metrics $last) }}{{ fail (printf "metrics.port: %d is a port of the listener or of a broker (%d to %d)" $metrics $first $last) }}{{ end -}}
{{- if ge (int .Values.drain) (int .Values.terminationGracePeriodSeconds) }}{{ fail (printf "drain: %d seconds must be less than terminationGracePeriodSeconds (%d)" (int .Values.drain) (int .Values.terminationGracePeriodSeconds)) }}{{ end -}}
{{- with .Values.autoscaling }}{{ if gt (int .minReplicas) (int .maxReplicas) }}{{ fail (printf "autoscaling.minReplicas: %d is more than maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) }}{{ end }}{{ end -}}
{{- if and .Values.networkPolicy.enabled .Values.metrics.serviceMonitor.enabled (not .Values.networkPolicy.metricsFrom) }}{{ fail "networkPolicy.metricsFrom: name Prometheus' pods; with metrics.serviceMonitor, they must reach the metrics port" }}{{ end -}}
{{- if and .Values.audit.enabled (not .Values.audit.topics) }}{{ fail "audit.topics: name the topics to judge, such as \"*\"" }}{{ end -}}
{{- if and .Values.autoscaling.enabled (not (dig "requests" "cpu" "" (.Values.resources | default dict))) }}{{ fail "autoscaling: needs resources.requests.cpu, which targetCPUUtilizationPercentage is a share of" }}{{ end -}}
{{- range $key, $value := .Values.config -}}
{{- if and (regexMatch "(?i)(password|secret|token|credential|jaas(\\.config)?|user\\.info|ssl\\.keystore\\.key)$" $key) $value (not (contains "${" $value)) }}{{ fail (printf "config: the value of %s would be readable in a ConfigMap. Put it into a Secret: name the Secret in secrets, and set the key to ${file:/etc/penstock-secrets/NAME/KEY}" $key) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* The keys that the chart sets itself, with their values. */ -}}
{{- define "penstock.ownConfig" -}}
{{- $first := add1 .Values.listener.port -}}
{{- $last := add .Values.listener.port .Values.brokers.ports -}}
{{- $service := printf "%s.%s.svc.%s" (include "penstock.name" .) .Release.Namespace .Values.clusterDomain -}}
listeners: {{ printf "%s://%s:%d" .Values.listener.protocol .Values.listener.address (int .Values.listener.port) | quote }}
advertised.host: {{ .Values.advertisedHost | default $service | quote }}
broker.addresses: {{ .Values.brokers.addresses | quote }}
listener.proxy.protocol: {{ .Values.listener.proxyProtocol | toString | quote }}
{{- if eq .Values.brokers.addresses "sni" }}
{{- if not (hasSuffix "SSL" .Values.listener.protocol) }}{{ fail "brokers.addresses: sni needs listener.protocol SSL or SASL_SSL" }}{{ end }}
{{- if not .Values.advertisedHost }}{{ fail "brokers.addresses: sni needs advertisedHost, with names broker-ID before it" }}{{ end }}
advertised.port: {{ .Values.advertisedPort | default .Values.listener.port | int | toString | quote }}
{{- else }}
broker.ports: {{ printf "%d-%d" $first $last | quote }}
broker.ids.first: {{ .Values.brokers.firstId | int | toString | quote }}
{{- end }}
metrics.listener: {{ printf "%s:%d" .Values.listener.address (int .Values.metrics.port) | quote }}
metrics.listener.token: {{ printf "${file:/run/penstock/%s}" .Values.metrics.token.key | quote }}
{{- end -}}

{{- /* penstock.properties: what would end a key or a value early is escaped. */ -}}
{{- define "penstock.properties" -}}
{{- $own := include "penstock.ownConfig" . | fromYaml -}}
{{- range $key := keys .Values.config | sortAlpha -}}
{{- if hasKey $own $key }}{{ fail (printf "config: %s is set by the chart: see values.yaml" $key) }}{{ end -}}
{{- end -}}
{{- $all := merge (dict) .Values.config $own -}}
{{- if and .Values.autoscaling.enabled (not (hasKey $all "connections.max.age.ms")) }}{{ $_ := set $all "connections.max.age.ms" "600000" }}{{ end -}}
{{- range $key := keys $all | sortAlpha -}}
{{- $value := get $all $key | replace "\\" "\\\\" | replace "\n" "\\n" | replace "\r" "\\r" -}}
{{- if hasPrefix " " $value }}{{ $value = printf "\\%s" $value }}{{ end -}}
{{ regexReplaceAll "([\\\\:= #!])" $key "\\${1}" }}={{ $value }}
{{ end -}}
{{- end -}}
