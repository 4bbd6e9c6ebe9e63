package grid
import ("testing";"context";"time";"fmt";"os")
import "github.com/titrate/titrate/services/simulate"
func TestDbg(t *testing.T) {
	for _, c := range []Cell{{3, 25*time.Millisecond, 0, ""},{3, 100*time.Millisecond, 0, ""},{3, 100*time.Millisecond, .3, ""}, {3, 100*time.Millisecond, 0, "restart"}} {
		for _, strict := range []bool{false,true} {
		if strict && os.Getenv("S")=="" {continue}
		j := job{cell: c, span: 40*time.Second, limits: limits(os.Getenv("F")==""), loads: loads(), seed: 1, strict: strict}
		res, err := simulate.Run(context.Background(), j.scenario(), simulate.Options{})
		if err != nil { t.Fatal(err) }
		by := map[string]string{}
		for _, k := range res.Systems[0].Keys { by[k.Tenant] = fmt.Sprintf("%d/%d x%.1f", k.Wrongful, k.Within, k.WorstExcess) }
		for i, l := range j.limits { for k, ld := range j.loads { if ld.below { fmt.Printf("%v %v %v b=%v %s: %s\n", c, strict, l.name, l.burst, ld.name, by[tenant(i,k)]) } } }
		}
	}
}
