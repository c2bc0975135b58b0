package operate

// PageRoutes are the methods and paths of the page.
func PageRoutes() (all [][2]string) {
	for _, r := range new(page).table() {
		all = append(all, [2]string{r.method, r.path})
	}
	return all
}
