module gowk

go 1.19
