// Carries the headers that tests share, compiled once (see PithTargets.cmake).
