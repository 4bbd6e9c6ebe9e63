package exchange

// FeatureOverrides names the ability of a gateway to read overrides that are apart from their limits.
const FeatureOverrides = "overrides"
