"""Texts of strerror(3) in other languages, in English.

Programs that call setlocale(3) print the C library's errors in the user's language; modprobe and the kernel
never do. Source: the message catalogues po/{de,es,fr,ja,ko,ru,zh_CN,zh_TW}.po of the GNU C Library 2.17 and
2.42, and po/{it,pl,pt,pt_BR}.po of 2.36 (LGPL-2.1-or-later), of which this has the texts of a few errors, as
programs print them.
"""

# ruff: noqa: RUF001 - these are letters of other alphabets

from __future__ import annotations

import functools
import re

from gdrkit.messages.errors import strerror

_TRANSLATIONS: dict[int, tuple[str, ...]] = {
    1: (
        "Die Operation ist nicht erlaubt",
        "Operación no permitida",
        "Operacja niedozwolona",
        "Operazione non permessa",
        "Operação não permitida",
        "Opération non permise",
        "Операция не позволена",
        "不允许的操作",
        "此項操作並不被允許",
        "許可されていない操作です",
        "명령을 허용하지 않음",
    ),
    2: (
        "Arquivo ou diretório inexistente",
        "Aucun fichier ou dossier de ce nom",
        "Aucun fichier ou dossier de ce type",
        "Datei oder Verzeichnis nicht gefunden",
        "Ficheiro ou pasta inexistente",
        "File o directory non esistente",
        "Nie ma takiego pliku ani katalogu",
        "No existe el fichero o el directorio",
        "Нет такого файла или каталога",
        "そのようなファイルやディレクトリはありません",
        "沒有此一檔案或目錄",
        "没有那个文件或目录",
        "그런 파일이나 디렉터리가 없습니다",
    ),
    5: (
        "Błąd wejścia/wyjścia",
        "Eingabe-/Ausgabefehler",
        "Erreur d'entrée/sortie",
        "Erro de entrada/saída",
        "Error de entrada/salida",
        "Errore di input/output",
        "Ошибка ввода/вывода",
        "入力/出力エラーです",
        "輸入/輸出錯誤",
        "输入/输出错误",
        "입력/출력 오류",
    ),
    11: (
        "Die Ressource ist zur Zeit nicht verfügbar",
        "Recurso no disponible temporalmente",
        "Recurso temporariamente indisponível",
        "Ressource temporairement non disponible",
        "Risorsa temporaneamente non disponibile",
        "Zasoby chwilowo niedostępne",
        "Ресурс временно недоступен",
        "リソースが一時的に利用できません",
        "資源暫時無法取得",
        "资源暂时不可用",
        "자원이 일시적으로 사용 불가능함",
    ),
    12: (
        "Impossibile allocare memoria",
        "Impossível alocar memória",
        "Ne peut allouer de la mémoire",
        "Nicht genügend Hauptspeicher verfügbar",
        "Nie można przydzielić pamięci",
        "No se pudo asignar memoria",
        "Não foi possível alocar memória",
        "Невозможно выделить память",
        "メモリを確保できません",
        "无法分配内存",
        "無法配置記憶體",
        "메모리를 할당할 수 없습니다",
    ),
    13: (
        "Brak dostępu",
        "Keine Berechtigung",
        "Permesso negato",
        "Permiso denegado",
        "Permission non accordée",
        "Permissão negada",
        "Permissão recusada",
        "Отказано в доступе",
        "拒絕不符權限的操作",
        "权限不够",
        "許可がありません",
        "허가 거부",
    ),
    14: (
        "Błędny adres",
        "Dirección incorrecta",
        "Endereço inválido",
        "Indirizzo errato",
        "Mau endereço",
        "Mauvaise adresse",
        "Ungültige Adresse",
        "Неправильный адрес",
        "不正なアドレスです",
        "錯誤的位址",
        "错误的地址",
        "잘못된 주소",
        "주소가 잘못됨",
    ),
    19: (
        "Aucun périphérique de ce type",
        "Dispositivo inexistente",
        "Kein passendes Gerät gefunden",
        "Nessun device corrisponde",
        "Nie ma takiego urządzenia",
        "No existe el dispositivo",
        "Нет такого устройства",
        "そのようなデバイスはありません",
        "沒有此一裝置",
        "没有那个设备",
        "그런 장치가 없음",
    ),
    22: (
        "Argomento non valido",
        "Argument invalide",
        "Argumento inválido",
        "Das Argument ist ungültig",
        "Zły argument",
        "Недопустимый аргумент",
        "不適用的引數",
        "无效的参数",
        "無効な引数です",
        "부적절한 인수",
    ),
    93: (
        "Das Protokoll wird nicht unterstützt",
        "Protocole non supporté",
        "Protocollo non supportato",
        "Protocolo no soportado",
        "Protocolo não suportado",
        "Protocolo sem suporte",
        "Protokół nie obsługiwany",
        "Протокол не поддерживается",
        "プロトコルはサポートされていません",
        "不支持的协议",
        "協定不支援",
        "규약을 지원하지 않음",
    ),
    95: (
        "Die Operation wird nicht unterstützt",
        "La operación no está soportada",
        "Operacja nie obsługiwana",
        "Operazione non supportata",
        "Operação não suportada",
        "Operação sem suporte",
        "Opération non supportée",
        "Неподдерживаемая операция",
        "サポートされていない操作です",
        "不支持的操作",
        "此項操作並不被支援",
        "명령을 지원하지 않음",
    ),
    110: (
        "Connessione scaduta",
        "Connexion terminée par expiration du délai d'attente",
        "Die Wartezeit für die Verbindung ist abgelaufen",
        "Expiró el tiempo de conexión",
        "Ligação expirada",
        "Przekroczony czas oczekiwania na połączenie",
        "Tempo esgotado para conexão",
        "Время ожидания соединения истекло",
        "接続がタイムアウトしました",
        "连接超时",
        "連線超過時間",
        "연결 시간 초과",
    ),
}
"""By errno of Linux."""


def in_english(text: str) -> str:
    """The text with the C library's own words for each error that it names in another language."""
    if text.isascii() and _ascii_starts().isdisjoint(text.split()):
        return text
    return _pattern().sub(lambda found: _english()[found[0]], text)


@functools.cache
def _english() -> dict[str, str]:
    return {text: strerror(number) for number, texts in _TRANSLATIONS.items() for text in texts}


@functools.cache
def _ascii_starts() -> frozenset[str]:
    """The first words of the texts that have nothing but ASCII letters."""
    return frozenset(text.split()[0] for text in _english() if text.isascii())


@functools.cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted(_english(), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))
