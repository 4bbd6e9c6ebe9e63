package reaction

import (
	"errors"
	"fmt"
	"math"
)

// Species, Reaction and Input number the parts of one Network in the order in
// which its Kit made them.
type (
	Species  int
	Reaction int
	Input    int
)

// Kit collects the parts of a network. The zero value is empty and ready.
type Kit struct {
	species []string
	rules   []rule
	feeds   []feed
	errs    []error
}

// rule is one reaction; a species repeated n times has the coefficient n.
type rule struct {
	name               string
	rate               float64
	consumes, produces []Species
}

// feed is one input.
type feed struct {
	name string
	into Species
}

// Species adds a species.
func (k *Kit) Species(name string) Species {
	k.species = append(k.species, name)
	return Species(len(k.species) - 1)
}

// React adds a reaction with rate constant rate ≥ 0 (1/s for one reactant,
// 1/(s·amount) for two, and so on). Repeat a species for a coefficient above 1;
// nil as products lets the reactants vanish.
func (k *Kit) React(name string, rate float64, consumes, produces []Species) Reaction {
	if !(rate >= 0) || rate > largest {
		k.errs = append(k.errs, fmt.Errorf("reaction %q: rate constant %v must be within [0, %g]", name, rate, largest))
	}
	if len(consumes) == 0 {
		k.errs = append(k.errs, fmt.Errorf("reaction %q has no reactants: a flow from outside is an Input", name))
	}
	k.rules = append(k.rules, rule{name, rate, k.known(name, consumes), k.known(name, produces)})
	return Reaction(len(k.rules) - 1)
}

// Input adds a flow from outside into a species; its rate is set per Vessel.
func (k *Kit) Input(name string, into Species) Input {
	k.known(name, []Species{into})
	k.feeds = append(k.feeds, feed{name, into})
	return Input(len(k.feeds) - 1)
}

// known returns a copy of the list and notes the species that do not exist.
func (k *Kit) known(name string, list []Species) []Species {
	for _, s := range list {
		if s < 0 || int(s) >= len(k.species) {
			k.errs = append(k.errs, fmt.Errorf("%q names species %d, of which the kit has only %d", name, s,
				len(k.species)))
		}
	}
	return append([]Species(nil), list...)
}

// Network is an immutable network of reactions, safe for concurrent use.
type Network struct {
	species []string
	rules   []rule
	feeds   []feed
	psi     []float64 // species × reactions
	laws    []float64 // conserved sums, row per law, reduced row echelon form
	pivots  []int     // the species that each law determines
}

// Build makes the network, or returns all that is wrong with the kit as one error.
func (k *Kit) Build() (*Network, error) {
	if len(k.species) == 0 {
		return nil, errors.New("reaction: a network needs at least one species")
	}
	if len(k.errs) > 0 {
		return nil, fmt.Errorf("reaction: %w", errors.Join(k.errs...))
	}
	n := &Network{species: k.species, rules: k.rules, feeds: k.feeds}
	n.psi = make([]float64, len(n.species)*len(n.rules))
	for r, rule := range n.rules {
		for _, s := range rule.consumes {
			n.psi[int(s)*len(n.rules)+r]--
		}
		for _, s := range rule.produces {
			n.psi[int(s)*len(n.rules)+r]++
		}
	}
	n.laws, n.pivots = n.conserved()
	return n, nil
}

// Size returns the numbers of species, reactions and inputs.
func (n *Network) Size() (species, reactions, inputs int) {
	return len(n.species), len(n.rules), len(n.feeds)
}

// Stoichiometry returns Ψ: a row per species, a column per reaction and then
// one per input.
func (n *Network) Stoichiometry() [][]float64 {
	out := make([][]float64, len(n.species))
	for i := range out {
		out[i] = append(out[i], n.psi[i*len(n.rules):(i+1)*len(n.rules)]...)
		for _, f := range n.feeds {
			if int(f.into) == i {
				out[i] = append(out[i], 1)
			} else {
				out[i] = append(out[i], 0)
			}
		}
	}
	return out
}

// Conserved returns a basis of the sums Σ w_i·c_i that neither reactions nor
// inputs change (L3): the left null space of Ψ, a row w per law.
func (n *Network) Conserved() [][]float64 {
	s := len(n.species)
	out := make([][]float64, len(n.pivots))
	for l := range out {
		out[l] = append(out[l], n.laws[l*s:(l+1)*s]...)
	}
	return out
}

// conserved eliminates [Ψ | I]: rows whose left part vanishes hold the laws in
// their right part, which is then brought to reduced row echelon form.
func (n *Network) conserved() (laws []float64, pivots []int) {
	s, psi := len(n.species), n.Stoichiometry()
	cols := len(n.rules) + len(n.feeds)
	work := make([]float64, 0, s*(cols+s))
	for i, row := range psi {
		unit := make([]float64, s)
		unit[i] = 1
		work = append(append(work, row...), unit...)
	}
	rank := len(echelon(work, s, cols+s, cols))
	for i := rank; i < s; i++ {
		laws = append(laws, work[i*(cols+s)+cols:(i+1)*(cols+s)]...)
	}
	return laws, echelon(laws, s-rank, s, s)
}

// echelon brings the first limit columns of a rows×cols matrix to reduced row
// echelon form and returns the pivot columns. Entries are small integers.
func echelon(a []float64, rows, cols, limit int) (pivots []int) {
	for c := 0; c < limit && len(pivots) < rows; c++ {
		r, best := len(pivots), len(pivots)
		for i := r + 1; i < rows; i++ {
			if math.Abs(a[i*cols+c]) > math.Abs(a[best*cols+c]) {
				best = i
			}
		}
		p := a[best*cols+c]
		if math.Abs(p) < 1e-9 {
			continue
		}
		for j := range cols {
			a[best*cols+j], a[r*cols+j] = a[r*cols+j], a[best*cols+j]/p
		}
		for i := range rows {
			f := a[i*cols+c]
			if i == r || f == 0 {
				continue
			}
			for j := range cols {
				a[i*cols+j] -= f * a[r*cols+j]
			}
		}
		pivots = append(pivots, c)
	}
	return pivots
}
