{{/* Name of everything that the release has one of. */}}
{{- define "specdec.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "specdec.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "specdec.fullname" .) }}
{{- end -}}

{{- define "specdec.priorityClass" -}}
{{ .Values.priorityClass.name | default (ternary (include "specdec.fullname" .) "" .Values.priorityClass.create) }}
{{- end -}}

{{- define "specdec.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* One operator per namespace: its Lease and its key have fixed names, so no label tells releases apart. */}}
{{- define "specdec.selector" -}}
app.kubernetes.io/name: specdec-operator
{{- end -}}

{{- define "specdec.labels" -}}
{{ include "specdec.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: specdec
{{- end -}}

{{/* Namespaces whose engines get a NetworkPolicy. */}}
{{- define "specdec.engineNamespaces" -}}
{{ .Values.networkPolicy.engineNamespaces | default .Values.namespaces | toJson }}
{{- end -}}
