package link

import "fmt"

const (
	// Version is the newest version that this build speaks.
	Version uint8 = 1
	// Oldest is the oldest version that this build understands: Version−1,
	// but never below the first one.
	Oldest uint8 = max(Version-1, 1)
)

// VersionError is the error of two builds whose versions are too far apart.
type VersionError struct {
	// Ours and Theirs are the newest versions of the two sides.
	Ours, Theirs uint8
}

// Error names both versions and what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("link: the peer speaks version %d and this build %d: they must be at most 1 apart; "+
		"upgrade the older one first", e.Theirs, e.Ours)
}

// Negotiate returns the version to write in to a peer whose Hello carried
// theirs, or a *VersionError.
func Negotiate(theirs uint8) (uint8, error) { return negotiate(Version, theirs) }

func negotiate(ours, theirs uint8) (uint8, error) {
	low, high := min(ours, theirs), max(ours, theirs)
	if low == 0 || high-low > 1 {
		return 0, &VersionError{Ours: ours, Theirs: theirs}
	}
	return low, nil
}
