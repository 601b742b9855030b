{{- define "levelset.labels" -}}
app.kubernetes.io/name: levelset-apiserver
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
