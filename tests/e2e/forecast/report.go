package main

func report(compared, control []comparison, version string, seed uint64) (string, error) {
	return "", nil
}
