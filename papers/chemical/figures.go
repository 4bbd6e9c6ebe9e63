package chemical

import "github.com/titrate/titrate/papers/experiment"

// Paper lists its figures and tables.
func Paper() experiment.Paper {
	return experiment.Paper{
		Key: "chem", Package: "papers/chemical, papers/reaction, control/drc",
		Citation: "Monti & Sifalakis, Design, Analysis and Performances of Chemical-Inspired Rate Controllers in " +
			"Packet Networks (University of Basel, 2013)",
		Experiments: []experiment.Experiment{
			{Figure: "Fig 1–5", Name: "chem-fig1", Title: "token bucket, reactions, deployment",
				Cannot: "drawings; the networks are reaction.NewBucket and reaction.NewAdaptive"},
			{Figure: "Table 1", Name: "chem-table1", Title: "the constants, and the limit that they make", Run: tab1},
			{Figure: "Fig 6a", Name: "chem-fig6a", Title: "step response below the limit", Run: fig6a},
			{Figure: "Fig 6b", Name: "chem-fig6b", Title: "step response above the limit", Run: fig6b},
			{Figure: "Fig 7a", Name: "chem-fig7", Title: "eleven hosts, Poisson clients: the limit is respected",
				Run: fig7("chem-fig7", "Fig 7a: eleven hosts with Poisson clients, delays U(0, 60) ms", 0)},
			{Figure: "Fig 7b", Name: "chem-fig7b", Title: "the same with bursts",
				Run: fig7("chem-fig7b", "Fig 7b: the same with bursts of 2 s on average and pauses as long", 2)},
			{Figure: "Fig 8", Name: "chem-fig8", Title: "the rates of the eleven hosts, and how fair they are when",
				Run: fig8},
			{Figure: "Fig 9", Name: "chem-fig9", Title: "hosts below, slightly above and far above their share",
				Run: fig9},
			{Figure: "Fig 10", Name: "chem-fig10", Title: "four nodes on 2 Mbit/s; ours beside", Run: fig10},
			{Figure: "Section 4.3", Name: "chem-reset", Title: "back to the initial state without load", Run: reset},
		},
	}
}
