{{- /* What the pods of the gateway and of the audit have in common. */ -}}
{{- define "penstock.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
volumes:
  - name: config
    configMap:
      name: {{ include "penstock.name" . }}
  - name: token
    secret:
      secretName: {{ include "penstock.tokenSecret" . }}
  {{- range .Values.secrets }}
  - name: secret-{{ . }}
    secret:
      secretName: {{ . }}
  {{- end }}
  - name: tmp
    emptyDir: {}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "penstock.container" -}}
image: {{ include "penstock.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.env }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: /etc/penstock
    readOnly: true
  - name: token
    mountPath: /run/penstock
    readOnly: true
  {{- range .Values.secrets }}
  - name: secret-{{ . }}
    mountPath: /etc/penstock-secrets/{{ . }}
    readOnly: true
  {{- end }}
  - name: tmp
    mountPath: /tmp
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
