package main

import "syscall"

func processorTime() float64 {
	var created, ended, kernel, user syscall.Filetime
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		err = syscall.GetProcessTimes(self, &created, &ended, &kernel, &user)
	}
	if err != nil {
		panic(err) // it only fails for a bad argument
	}
	nanoseconds := func(t syscall.Filetime) int64 { return 100 * (int64(t.HighDateTime)<<32 + int64(t.LowDateTime)) }
	return float64(nanoseconds(kernel) + nanoseconds(user))
}
