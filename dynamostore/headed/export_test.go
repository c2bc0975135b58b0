package headed

// Members is members.
var Members = members
