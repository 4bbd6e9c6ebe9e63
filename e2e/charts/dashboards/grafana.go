package main

// Grafana's JSON, as far as it is used here.
type (
	object = map[string]any

	page struct {
		UID           string         `json:"uid"`
		Title         string         `json:"title"`
		Description   string         `json:"description"`
		Tags          []string       `json:"tags"`
		SchemaVersion int            `json:"schemaVersion"`
		Editable      bool           `json:"editable"`
		Refresh       string         `json:"refresh"`
		Time          object         `json:"time"`
		Links         []object       `json:"links"`
		Templating    object         `json:"templating"`
		Panels        []grafanaPanel `json:"panels"`
	}

	grafanaPanel struct {
		ID          int      `json:"id"`
		Type        string   `json:"type"`
		Title       string   `json:"title"`
		Description string   `json:"description,omitempty"`
		At          place    `json:"gridPos"`
		Source      object   `json:"datasource,omitempty"`
		Targets     []target `json:"targets,omitempty"`
		Fields      object   `json:"fieldConfig,omitempty"`
		Options     object   `json:"options,omitempty"`
	}

	place struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	}

	target struct {
		RefID  string `json:"refId"`
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	}
)

// Grafana's grid has this many columns; heights are of 30 pixels.
const (
	columns               = 24
	statWidth, statHigh   = 4, 4
	chartWidth, chartHigh = 12, 8
)

// source is the data source that the reader chooses.
var source = object{"type": "prometheus", "uid": "${datasource}"}

func (d dashboard) grafana() page {
	return page{
		UID: "titrate-" + d.name, Title: d.title, Description: d.help, Tags: []string{"titrate"},
		SchemaVersion: 39, Editable: true, Refresh: "10s", Time: object{"from": "now-1h", "to": "now"},
		Links: []object{{"type": "dashboards", "tags": []string{"titrate"}, "title": "Titrate", "includeVars": true,
			"keepTime": true}},
		Templating: object{"list": d.templating()},
		Panels:     d.grafanaPanels(),
	}
}

// templating returns the variables: the data source, the namespaces, and the dashboard's own.
func (d dashboard) templating() []object {
	list := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	for _, v := range append([]variable{{"namespace", "titrate_leading"}}, d.variables...) {
		list = append(list, object{"name": v.name, "type": "query", "datasource": source, "refresh": 2, "sort": 1,
			"query": object{"query": "label_values(" + v.metric + ", " + v.name + ")", "refId": v.name},
			"multi": true, "includeAll": true, "allValue": ".*",
			"current": object{"text": "All", "value": "$__all"}})
	}
	return list
}

// grafanaPanels lays the rows out from the left to the right, and from the top to the bottom.
func (d dashboard) grafanaPanels() []grafanaPanel {
	var all []grafanaPanel
	y := 0
	for _, r := range d.rows {
		all = append(all, grafanaPanel{Type: "row", Title: r.title, At: place{0, y, columns, 1}})
		y++
		x, high := 0, 0
		for _, p := range r.panels {
			b := p.grafanaPanel()
			if x+b.At.W > columns {
				x, y, high = 0, y+high, 0
			}
			b.At.X, b.At.Y = x, y
			x, high = x+b.At.W, max(high, b.At.H)
			all = append(all, b)
		}
		y += high
	}
	for i := range all {
		all[i].ID = i + 1
	}
	return all
}

func (p panel) grafanaPanel() grafanaPanel {
	b := grafanaPanel{Type: "timeseries", Title: p.title, Description: p.help, Source: source,
		At: place{W: chartWidth, H: chartHigh}}
	for i, q := range p.queries {
		b.Targets = append(b.Targets, target{string(rune('A' + i)), q.expr, q.legend})
	}
	custom := object{"fillOpacity": 10, "showPoints": "never"}
	switch p.kind {
	case stacked:
		custom = object{"fillOpacity": 40, "showPoints": "never", "stacking": object{"mode": "normal"}}
	case stat, alarm, lacking:
		return p.latest(b)
	}
	b.Fields = object{"defaults": object{"unit": p.unit.grafana, "min": 0, "custom": custom}, "overrides": []any{}}
	b.Options = object{"tooltip": object{"mode": "multi", "sort": "desc"},
		"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}}
	return b
}

// latest makes a panel that shows a number.
func (p panel) latest(b grafanaPanel) grafanaPanel {
	b.Type, b.At.W, b.At.H = "stat", statWidth, statHigh
	steps := []object{{"color": "text", "value": nil}}
	switch p.kind {
	case alarm:
		steps = []object{{"color": "green", "value": nil}, {"color": "red", "value": 1}}
	case lacking:
		steps = []object{{"color": "red", "value": nil}, {"color": "green", "value": 1}}
	}
	b.Fields = object{"defaults": object{"unit": p.unit.grafana,
		"thresholds": object{"mode": "absolute", "steps": steps}}, "overrides": []any{}}
	b.Options = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "value",
		"graphMode": "none"}
	return b
}
