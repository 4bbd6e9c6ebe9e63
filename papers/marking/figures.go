package marking

import "github.com/titrate/titrate/papers/experiment"

// Paper lists its figures.
func Paper() experiment.Paper {
	const drawing = "drawings"
	return experiment.Paper{
		Key: "aqm", Package: "papers/marking, papers/packets",
		Citation: "Yan, Gao & Özbay, Variable Structure Control in Active Queue Management for TCP with ECN (2003)",
		Experiments: []experiment.Experiment{
			{Figure: "Fig 1–3", Name: "aqm-fig1", Title: "block diagram, network topologies", Cannot: drawing},
			{Figure: "(1)–(6), (12)", Name: "aqm-plant", Title: "the law on the fluid models, without and with delay",
				Run: models},
			{Figure: "(11)", Name: "aqm-bound", Title: "the condition of robustness and the paper's δ", Run: bound},
			{Figure: "Fig 4", Name: "aqm-fig4", Title: "queue of 100 sources under the law", Run: fig4},
			{Figure: "Fig 5", Name: "aqm-fig5", Title: "the same under drop tail, RED, PI and REM", Run: fig5},
			{Figure: "Fig 6", Name: "aqm-fig6", Title: "50 of 150 sources leave and return", Run: fig6},
			{Figure: "Fig 7", Name: "aqm-fig7", Title: "mean queue by number of sources", Run: fig7},
			{Figure: "Fig 8", Name: "aqm-fig8", Title: "use of the link by number of sources", Run: fig8},
			{Figure: "Fig 9", Name: "aqm-fig9", Title: "packets lost by number of sources", Run: fig9},
			{Figure: "Fig 10", Name: "aqm-fig10", Title: "300 sources, PI and the law", Run: fig10},
			{Figure: "Fig 11", Name: "aqm-fig11", Title: "short-lived flows", Run: fig11},
			{Figure: "Fig 12", Name: "aqm-fig12", Title: "a shorter round trip",
				Run: trips("aqm-fig12", "Fig 12: 100 sources, round trip 28 ms", .002, .01)},
			{Figure: "Fig 13", Name: "aqm-fig13", Title: "a longer round trip",
				Run: trips("aqm-fig13", "Fig 13: 100 sources, round trip 320 ms", .02, .12)},
			{Figure: "Fig 14", Name: "aqm-fig14", Title: "several bottlenecks", Run: fig14},
		},
	}
}
