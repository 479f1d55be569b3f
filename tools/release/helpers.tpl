{{/* An image of this chart: a list of the root and the image's name. */}}
{{- define "edge-sidecars.image" -}}
{{- $root := index . 0 -}}
{{- printf "%s/%s:%s" (trimSuffix "/" $root.Values.image.registry) (index . 1) (toString $root.Values.image.tag) | quote -}}
{{- end }}

{{/*
The items of a container's env that values give. `env`: them; `fixed`: names that the chart gives
from elsewhere; `path`: where the values are, for the message.
*/}}
{{- define "edge-sidecars.env" -}}
{{- if not (or .env .fixed) }}[]{{ end }}
{{- range $name, $value := .env }}
{{- if has $name $.fixed }}
{{- fail (printf "%s.%s: the chart sets this variable from elsewhere; drop it" $.path $name) }}
{{- end }}
{{- if not (kindIs "invalid" $value) }}
- name: {{ $name }}
  value: {{ if kindIs "string" $value }}{{ quote $value }}{{ else }}{{ toJson $value | quote }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
