{{- define "perfmodel.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "perfmodel.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "perfmodel.labels" -}}
{{ include "perfmodel.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "perfmodel.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ include "perfmodel.fullname" . }}{{ else }}default{{ end }}
{{- end }}

{{- define "perfmodel.shared" -}}
{{- if .Values.database.existingSecret }}true{{ end }}
{{- end }}

{{- define "perfmodel.check" -}}
{{- $many := or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}
{{- if and $many (not .Values.database.existingSecret) -}}
{{- fail "More than one replica needs a PostgreSQL: set database.existingSecret, or replicas=1 and autoscaling.enabled=false." -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.existingSecret) -}}
{{- fail "The ServiceMonitor needs a key of the scope observe: set serviceMonitor.existingSecret." -}}
{{- end -}}
{{- end }}
