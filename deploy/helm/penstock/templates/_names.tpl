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
{{- .Values.metrics.token.existingSecret | default (printf "%s-metrics" (include "penstock.name" .)) -}}
{{- end -}}

{{- /* The keys that the chart sets itself, with their values. */ -}}
{{- define "penstock.ownConfig" -}}
{{- $first := add1 .Values.listener.port -}}
{{- $last := add .Values.listener.port .Values.brokers.ports -}}
{{- $service := printf "%s.%s.svc.%s" (include "penstock.name" .) .Release.Namespace .Values.clusterDomain -}}
listeners: {{ printf "%s://0.0.0.0:%d" .Values.listener.protocol (int .Values.listener.port) | quote }}
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
metrics.listener: {{ printf "0.0.0.0:%d" (int .Values.metrics.port) | quote }}
metrics.listener.token: {{ printf "${file:/run/penstock/%s}" .Values.metrics.token.key | quote }}
{{- end -}}

{{- /* penstock.properties: what would end a key or a value early is escaped. */ -}}
{{- define "penstock.properties" -}}
{{- $own := include "penstock.ownConfig" . | fromYaml -}}
{{- range $key := keys .Values.config | sortAlpha -}}
{{- if hasKey $own $key }}{{ fail (printf "config: %s is set by the chart: see values.yaml" $key) }}{{ end -}}
{{- end -}}
{{- $all := merge (dict) .Values.config $own -}}
{{- range $key := keys $all | sortAlpha -}}
{{- $value := get $all $key | replace "\\" "\\\\" | replace "\n" "\\n" | replace "\r" "\\r" -}}
{{- if hasPrefix " " $value }}{{ $value = printf "\\%s" $value }}{{ end -}}
{{ regexReplaceAll "([\\\\:= #!])" $key "\\${1}" }}={{ $value }}
{{ end -}}
{{- end -}}
